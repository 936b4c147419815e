#!/usr/bin/env bash
# products.sh ENGINE: strict f32 products of many shapes (tests/gpu/products.py) leave the same bits as on ref; large
# ones in one form of transpose.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 tests/gpu/products.py --once 1e8 >"$folder/products.trek"
for engine in ref "$1"; do
  "${TREK_BIN:?}/trek-run" "$folder/products.trek" --engine "$engine" --digest --quiet >"$folder/$engine.txt"
done
grep -q '^@' "$folder/ref.txt"
diff "$folder/ref.txt" "$folder/$1.txt"
echo "$(grep -c '^@' "$folder/ref.txt") digests are the same"
