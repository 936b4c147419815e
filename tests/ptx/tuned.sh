#!/usr/bin/env bash
# tuned.sh: --tune on the JIT leaves tiles of a file that are slow, and only for what it measured in a program of its own
# beside them. Slow on the interpreter of PTX are tiles with lines that the product does not have, of which two blocks have half
# of the k each: they take some ten times as long as the fastest, which no other work on this computer hides.
set -euo pipefail
source tests/gpu/hopper.sh
cat >"$folder/product.trek" <<'END'
.trek 1.0
.state @a f16[128,512] = normal(0, 1, key=1)
.state @b f16[512,64] = normal(0, 1, key=2)
.state @c f16[128,64]
.func main() {
  loop $i = 0 until 2 {
    @c = matmul @a, @b
  }
}
END
cat >"$folder/tiles.json" <<END
{"format": "trek tiles", "version": 1, "tiles": [
  {"device": "$device", "code": "$code", "processors": $processors, "numerics": "fast", "operands": "f16",
   "result": "f16", "m": 128, "n": 64, "k": 512, "batches": 1, "ta": false, "tb": false, "share": $processors,
   "rows": 96, "columns": 128, "part_columns": 192, "transposed": true, "pairs": "depth", "split": 1,
   "seconds": 1e-6}
]}
END
TREK_TUNED=$folder/tiles.json "$run" "$folder/product.trek" --engine jit --numerics fast --tune --quiet --json "$folder/report.json" >"$folder/report.txt"
python3 - "$folder/report.json" <<'END'
import json
import sys

(product,) = json.load(open(sys.argv[1]))["tuning"]["products"]
before, now = (product["tried"][product[which]] for which in ("before", "now"))
assert (before["rows"], before["part_columns"], before["pairs"]) == (96, 192, "depth"), before
assert now is not before, now
assert now["seconds_alone"]["median"] < before["seconds_alone"]["median"], (before, now)
alone = [each for each in product["tried"] if each["seconds_alone"] is not None]
assert 2 <= len(alone) <= 4, alone
print(f"{len(alone)} of {len(product['tried'])} in programs of their own, {product['gain']['median']:.2f} times as fast as before")
END
grep -q 'in a program of its own' "$folder/report.txt" || { cat "$folder/report.txt"; exit 1; }
