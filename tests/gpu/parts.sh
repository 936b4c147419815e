#!/usr/bin/env bash
# parts.sh: strict products whose k several tasks share leave the bits of ref on the JIT: those in runs, and those whose
# parts an optimizer adds (parts.py).
set -euo pipefail
run=${TREK_BIN:?}/trek-run
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
listed=$("$run" --list-engines | grep '^jit .*level sm_90a') || { echo "parts.sh: skipped, the engine jit takes no Hopper here"; exit 77; }
device=$(sed -E 's/^jit +available +device [0-9]+: ([^,]*),.*/\1/' <<<"$listed")
processors=$(grep -oE '[0-9]+ multiprocessors' <<<"$listed" | grep -oE '[0-9]+')
python3 tests/gpu/parts.py "$device" "jit sm_90a, compute capability 9.0" "$processors" "$folder"
export TREK_TUNED=$folder/tiles.json
"$run" "$folder/parts.trek" --engine ref --digest --quiet >"$folder/ref"
"$run" "$folder/parts.trek" --engine jit --digest --quiet >"$folder/jit"
diff "$folder/ref" "$folder/jit" || { echo "the JIT differs from ref"; exit 1; }
"$run" "$folder/parts.trek" --engine jit --profile --quiet 2>&1 | grep -E 'tiles: tuned, ([0-9]+) of \1 products' || { echo "not all products have the tiles of the file"; exit 1; }
echo "the JIT leaves the bits of ref in $(grep -c '^@' "$folder/ref") tensors"
