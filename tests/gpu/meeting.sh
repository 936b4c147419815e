#!/usr/bin/env bash
# meeting.sh: a product before whose tiles blocks meet leaves the bits of ref on the JIT, in one trip and in several.
set -euo pipefail
source tests/gpu/hopper.sh
columns=$((processors / 2 * 2 * 32))
digest() { "$run" tests/gpu/meeting.trek -D COLUMNS=$columns --set trips="$2" --engine "$1" --numerics fast --digest --quiet; }
expected=$(digest ref 1)
[[ $expected == @* ]] || { echo "ref gives no digest: $expected"; exit 1; }
for trips in 1 2 20; do
  diff <(echo "$expected") <(digest jit $trips) || { echo "the JIT differs from ref in $trips trips"; exit 1; }
done
echo "the JIT leaves the bits of ref in 1, 2 and 20 trips"
