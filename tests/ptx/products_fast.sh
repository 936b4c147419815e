#!/usr/bin/env bash
# products_fast.sh ENGINE MOST: products by tensor cores (tests/gpu/products_fast.py) stay inside their bounds; those of
# at most so many multiplications, which sums in f64 beside them repeat and the interpreter is slow at.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 tests/gpu/products_fast.py --most "$2" >"$folder/products_fast.trek"
"${TREK_BIN:?}/trek-run" --test --engine "$1" --numerics fast --quiet "$folder/products_fast.trek"
