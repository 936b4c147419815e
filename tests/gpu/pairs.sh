#!/usr/bin/env bash
# pairs.sh: tiles of fast products that only compiled programs have leave the bits of ref on the JIT: those that two blocks
# share, of widths of their own, and transposed ones (pairs.py). In as many programs as this computer has processors, which
# are compiled side by side.
set -euo pipefail
source tests/gpu/hopper.sh
parts=$(nproc)
((parts <= 16)) || parts=16

# The bits of ref, in the tiles of the file.
check() {
  local at=$folder/$1
  mkdir "$at"
  python3 tests/gpu/pairs.py "$device" "$code" "$processors" "$at" "$1/$parts"
  agrees_in_tiles "$at/pairs.trek" --numerics fast
}
checks=()
for part in $(seq "$parts"); do
  check "$part" &
  checks+=($!)
done
failed=0
for pid in "${checks[@]}"; do wait "$pid" || failed=1; done
((failed == 0)) || exit 1

# A trap of one block of a pair, when the other has begun the product behind it.
export TREK_TUNED=$folder/1/tiles.json
for trap in even=0 even=2 odd=0 odd=1 even=-1; do
  for engine in ref jit; do
    code=0
    timeout 100 "$run" "$folder/1/trap.trek" --engine $engine --numerics fast --quiet --set "$trap" >"$folder/trap-$engine" 2>&1 || code=$?
    echo "exit $code" >>"$folder/trap-$engine"
  done
  diff "$folder/trap-ref" "$folder/trap-jit" || { echo "with a trap ($trap) the JIT differs from ref"; exit 1; }
done
echo "the JIT leaves the bits of ref in $(cat "$folder"/*/pairs.trek.ref | grep -c '^@') tensors"
