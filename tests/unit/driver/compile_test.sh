#!/bin/sh
# emulator/driver/compile.sh with a stand-in for clang: that it compiles once what is the same after preprocessing, and
# anything else anew; and that what is kept stays within its bounds.
set -eu
script=$PWD/emulator/driver/compile.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export TREK_CUBIN_CACHE="$folder/kept here"

cat >clang <<'CLANG'
#!/bin/sh
# Preprocesses by leaving out lines that begin with '#', compiles by putting CODE before what is left; writes what the
# output depends on, counts compilations in `runs`, exits with FAILS.
[ "$1" != --version ] || { echo "clang ${VERSION-19}"; exit; }
preprocesses=
while [ $# -gt 0 ]; do
  case $1 in
    -E) preprocesses=yes ;;
    -o) output=$2 ;;
    -MF) echo "of this build" >"$2" ;;
    *.cu) source=$1 ;;
  esac
  shift
done
[ -z "$preprocesses" ] || { grep -v '^#' "$source"; exit; }
echo run >>runs
[ -z "${FAILS-}" ] || { echo "error: $source" >&2; exit "$FAILS"; }
{ echo code && grep -v '^#' "$source"; } >"$output"
CLANG
chmod +x clang

fail() { echo "FAILED: $1"; exit 1; }
compiles() { # WHAT RUNS SOURCE ARGUMENT...
  what=$1 runs=$2 source=$3
  shift 3
  rm -f out.ptx out.ptx.d
  "$script" ./clang out.ptx "$@" "$source" || fail "$what: refused"
  { echo code && grep -v '^#' "$source"; } | cmp -s - out.ptx || fail "$what: other code"
  [ "$(cat out.ptx.d)" = "of this build" ] || fail "$what: does not say what it depends on"
  [ "$(wc -l <runs)" = "$runs" ] || fail "$what: compiled $(wc -l <runs) times, not $runs"
}

echo one >one.cu && cp one.cu same.cu && printf '# a comment\none\n' >commented.cu && echo two >two.cu
compiles "the first time" 1 one.cu -S
compiles "the same again" 1 one.cu -S
compiles "another source" 2 two.cu -S
compiles "other flags" 3 one.cu -S -DX
VERSION=20 compiles "another compiler" 4 one.cu -S
compiles "a source with another name" 5 same.cu -S
echo '# nothing but a comment' >>one.cu
compiles "what differs in comments" 5 one.cu -S
rm -r "$TREK_CUBIN_CACHE"
compiles "what was thrown away" 6 one.cu -S
TREK_CUBIN_CACHE='' compiles "kept nowhere" 7 one.cu -S
TREK_CUBIN_CACHE=/proc/nowhere compiles "kept where nothing can be written" 8 one.cu -S

: >"$TREK_CUBIN_CACHE/old.device" && touch -d '31 days ago' "$TREK_CUBIN_CACHE/old.device"
truncate -s 3G "$TREK_CUBIN_CACHE/large.device" && touch -d '1 day ago' "$TREK_CUBIN_CACHE/large.device"
compiles "beside old and large files" 9 two.cu -S -DX
[ ! -e "$TREK_CUBIN_CACHE/old.device" ] || fail "a file of 31 days stays"
[ ! -e "$TREK_CUBIN_CACHE/large.device" ] || fail "more than 2 GiB stay"
compiles "what was kept beside them" 9 two.cu -S -DX

if FAILS=3 "$script" ./clang out.ptx -S -DFAILS one.cu 2>said; then fail "what does not compile is accepted"; fi
grep -q "error: one.cu" said || fail "does not say what the compiler says"
compiles "what has failed is compiled again" 11 one.cu -S -DFAILS
echo "compile.sh compiles what it should"
