#!/bin/sh
# emulator/driver/assemble.sh with a stand-in for ptxas: what it refuses, and that it assembles once.
set -eu
script=$PWD/emulator/driver/assemble.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export TREK_CUBIN_CACHE="$folder/cache"

cat >ptxas <<'PTXAS'
#!/bin/sh
# Says what SAYS has, exits with CODE, counts its runs in `runs`.
[ "$1" != --version ] || { echo "ptxas ${VERSION-1}"; exit; }
echo run >>runs
while [ "$1" != -o ]; do shift; done
echo cubin >"$2"
printf '%s\n' "$SAYS"
exit "${CODE-0}"
PTXAS
chmod +x ptxas
clean='ptxas info    : Function properties for kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'
spills='ptxas info    : Function properties for first
    8 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for second
    640 bytes stack frame, 604 bytes spill stores, 900 bytes spill loads'

fail() { echo "FAILED: $1"; exit 1; }
accepts() { # WHAT MAX_SPILL PTX
  "$script" ./ptxas sm_80 "$2" "$3" out.cubin >said || { cat said; fail "$1"; }
  [ -f out.cubin ] && [ -f out.cubin.log ] || fail "$1: nothing was made"
}
refuses() { # WHAT MAX_SPILL PTX WORDS
  if "$script" ./ptxas sm_80 "$2" "$3" out.cubin >said; then fail "$1: accepted"; fi
  [ ! -f out.cubin ] || [ "$4" = fatal ] || fail "$1: left a cubin"
  grep -q "$4" said || { cat said; fail "$1: does not say '$4'"; }
}
runs() { [ "$(wc -l <runs)" = "$1" ] || fail "$2: ptxas ran $(wc -l <runs) times, not $1"; }

echo one >one.ptx && echo two >two.ptx && echo three >three.ptx && echo four >four.ptx
export SAYS="$clean"
accepts "what spills nothing" 0 one.ptx
runs 1 "the first time"
accepts "the same again" 0 one.ptx
runs 1 "from the cache"
VERSION=2 accepts "another ptxas" 0 one.ptx
runs 2 "another ptxas"

SAYS=$spills
accepts "spills within the limit" 604 two.ptx
refuses "one byte more than the limit, from the cache" 603 two.ptx "604 bytes spilled in second"
runs 3 "a limit that changed"
accepts "any spills where there is no limit" "" two.ptx

SAYS="ptxas info : (C7508) Potential Performance Loss: wgmma.mma_async instructions are serialized"
refuses "a warning of the C75xx family" "" three.ptx C7508
refuses "it again, from the cache" "" three.ptx C7508

SAYS="ptxas fatal: no such instruction"
CODE=1 refuses "what ptxas refuses" "" four.ptx fatal
TREK_CUBIN_CACHE= accepts "without a cache" "" four.ptx
echo "assemble.sh refuses what it should"
