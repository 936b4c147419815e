#!/usr/bin/env bash
# products_fast.sh ENGINE: products by tensor cores (tests/gpu/products_fast.py) stay inside their bounds; those of
# which the sums in f64 beside them are not too many to interpret.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 tests/gpu/products_fast.py --most 4e6 >"$folder/products_fast.trek"
"${TREK_BIN:?}/trek-run" --test --engine "$1" --numerics fast --quiet "$folder/products_fast.trek"
