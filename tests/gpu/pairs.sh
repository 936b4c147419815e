#!/usr/bin/env bash
# pairs.sh: tiles of fast products that only compiled programs have leave the bits of ref on the JIT: those that two blocks
# share, of widths of their own, and transposed ones (pairs.py). REF names a file of the digests of ref, which takes minutes
# for them: made for a device of as many processors, on any computer.
set -euo pipefail
run=${TREK_BIN:?}/trek-run
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
listed=$("$run" --list-engines | grep '^jit .*level sm_90a') || { echo "pairs.sh: skipped, the engine jit takes no Hopper here"; exit 77; }
device=$(sed -E 's/^jit +available +device [0-9]+: ([^,]*),.*/\1/' <<<"$listed")
processors=$(grep -oE '[0-9]+ multiprocessors' <<<"$listed" | grep -oE '[0-9]+')
python3 tests/gpu/pairs.py "$device" "jit sm_90a, compute capability 9.0" "$processors" "$folder"
export TREK_TUNED=$folder/tiles.json
if [[ -n ${REF:-} ]]; then
  cp "$REF" "$folder/ref"
else
  "$run" "$folder/pairs.trek" --engine ref --numerics fast --digest --quiet >"$folder/ref"
fi
"$run" "$folder/pairs.trek" --engine jit --numerics fast --digest --quiet >"$folder/jit"
diff "$folder/ref" "$folder/jit" || { echo "the JIT differs from ref"; exit 1; }
# They were the tiles of the file.
"$run" "$folder/pairs.trek" --engine jit --numerics fast --profile --quiet 2>&1 | grep -E 'tiles: tuned, ([0-9]+) of \1 products' || { echo "not all products have the tiles of the file"; exit 1; }
# A trap of one block of a pair, when the other has begun the product behind it.
for trap in even=0 even=2 odd=0 odd=1 even=-1; do
  for engine in ref jit; do
    code=0
    timeout 100 "$run" "$folder/trap.trek" --engine $engine --numerics fast --quiet --set "$trap" >"$folder/trap-$engine" 2>&1 || code=$?
    echo "exit $code" >>"$folder/trap-$engine"
  done
  diff "$folder/trap-ref" "$folder/trap-jit" || { echo "with a trap ($trap) the JIT differs from ref"; exit 1; }
done
echo "the JIT leaves the bits of ref in $(grep -c '^@' "$folder/ref") tensors"
