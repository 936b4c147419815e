#!/usr/bin/env bash
# parts.sh: strict products that compiled programs alone have leave the bits of ref on the JIT: those in runs, those in wide
# parts, and those whose parts an optimizer adds (parts.py).
set -euo pipefail
source tests/gpu/hopper.sh
python3 tests/gpu/parts.py "$device" "$code" "$processors" "$folder"
agrees_in_tiles "$folder/parts.trek"
echo "the JIT leaves the bits of ref in $(grep -c '^@' "$folder/parts.trek.ref") tensors"
