# What scripts share that have the JIT work in tiles of a file, on a Hopper; to be sourced. Gives `run`, the runner; `folder`,
# which is removed in the end; the device as such a file names it: `device`, `code` and `processors`; and agrees_in_tiles.
# Where there is no Hopper it says so and ends the script as skipped.
run=${TREK_BIN:?}/trek-run
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
listed=$("$run" --list-engines | grep '^jit .*level sm_90a') || { echo "$(basename "$0"): skipped, the engine jit takes no Hopper here"; exit 77; }
device=$(sed -E 's/^jit +available +device [0-9]+: ([^,]*),.*/\1/' <<<"$listed")
code="jit sm_90a, compute capability 9.0"
processors=$(grep -oE '[0-9]+ multiprocessors' <<<"$listed" | grep -oE '[0-9]+')

# PROGRAM [OPTION...]: whether the JIT leaves the bits of ref, and all products are in the tiles of tiles.json, which lies
# beside the program. What ref leaves is in PROGRAM.ref.
agrees_in_tiles() {
  local tiles
  tiles=$(dirname "$1")/tiles.json
  TREK_TUNED=$tiles "$run" "$@" --engine ref --digest --quiet >"$1.ref" || return 1
  TREK_TUNED=$tiles "$run" "$@" --engine jit --digest --profile --quiet >"$1.jit" || return 1
  diff "$1.ref" <(grep '^@' "$1.jit") || { echo "$1: the JIT differs from ref"; return 1; }
  grep -E 'tiles: tuned, ([0-9]+) of \1 products' "$1.jit" || { echo "$1: not all products have the tiles of the file"; return 1; }
}
