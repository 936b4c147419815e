#!/usr/bin/env bash
# parts.sh: strict products whose k several tasks share leave the bits of ref on the JIT: those in runs, and those whose
# parts an optimizer adds (parts.py).
set -euo pipefail
source tests/gpu/hopper.sh
python3 tests/gpu/parts.py "$device" "$code" "$processors" "$folder"
export TREK_TUNED=$folder/tiles.json
"$run" "$folder/parts.trek" --engine ref --digest --quiet >"$folder/ref"
"$run" "$folder/parts.trek" --engine jit --digest --profile --quiet >"$folder/jit"
diff "$folder/ref" <(grep '^@' "$folder/jit") || { echo "the JIT differs from ref"; exit 1; }
grep -E 'tiles: tuned, ([0-9]+) of \1 products' "$folder/jit" || { echo "not all products have the tiles of the file"; exit 1; }
echo "the JIT leaves the bits of ref in $(grep -c '^@' "$folder/ref") tensors"
