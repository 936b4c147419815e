#!/usr/bin/env bash
# products_fast.sh ENGINE [f32|bf16|f16]...: products by tensor cores (tests/gpu/products_fast.py) stay inside their bounds.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 tests/gpu/products_fast.py "${@:2}" >"$folder/products_fast.trek"
"${TREK_BIN:?}/trek-run" --test --engine "$1" --numerics fast --quiet "$folder/products_fast.trek"
