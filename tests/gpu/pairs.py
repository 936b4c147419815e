"""Fast products in tiles that two blocks share (plan::MatrixTiles::paired): a program, and a file of tiles that has it done
so on a device, in parts of every width.

All sums are of integers that f32 holds, so that any order gives the same bits. Each product has the one before in front of
it, so that its share is the whole device: tiles are remembered by that.

    python3 tests/gpu/pairs.py DEVICE CODE PROCESSORS FOLDER  # pairs.trek and tiles.json
"""

import json
import sys

CASES = [  # type, rows, columns, K, transposes, columns of a part, result, what follows; matrices of a batch
    ("bf16", 70, 184, 328, "", 64, "f32", ""),
    ("f16", 200, 232, 448, "tb", 128, "f32", "bias"),
    ("bf16", 136, 360, 512, "ta", 192, "bf16", ""),
    ("bf16", 130, 480, 584, "ta tb", 256, "f32", "root"),
    ("bf16", 128, 512, 640, "tb", 256, "bf16", "relu"),
    ("f32", 100, 232, 164, "", 128, "f32", ""),
    ("f32", 72, 128, 256, "ta tb", 64, "f32", "root"),
    ("bf16", 40, 64, 256, "tb", 64, "f32", "", 3),
]

device, code, processors, folder = sys.argv[1:]
declared = [".trek 1.0"]
body = []
tiles = []
for i, (element, rows, columns, depth, form, part, result, end, *batch) in enumerate(CASES):
    ta, tb = "ta" in form, "tb" in form
    left = f"{depth},{rows}" if ta else f"{rows},{depth}"
    right = f"{columns},{depth}" if tb else f"{depth},{columns}"
    if batch:
        left, right = f"{batch[0]},{left}", f"{batch[0]},{right}"
    out = f"{rows},{columns}" if not batch else f"{batch[0]},{rows},{columns}"
    declared += [
        f".state @a{i} f32[{left}] = uniform(0, 1, key={i + 1})",
        f".state @b{i} f32[{right}] = uniform(0, 1, key={i + 101})",
        f".state @c{i} f32[{columns}] = uniform(0, 1, key={i + 201})",
        f".output @r{i} {result}[{out}]",
    ]
    flags = "".join(f", {flag}" for flag in form.split())
    flags += {"bias": f", bias=%e{i}, tail=relu", "relu": ", tail=relu"}.get(end, "")
    product = f"%p{i}" if end == "root" else f"@r{i}"
    body += [
        f"  %u{i} = lt @a{i}, " + (f"%limit{i}" if i > 0 else "0.3"),
        f"  %v{i} = lt @b{i}, 0.3",
        f"  %w{i} = lt @c{i}, 0.3",
        f"  %x{i} = cast %u{i}, to={element}",
        f"  %y{i} = cast %v{i}, to={element}",
        f"  %e{i} = cast %w{i}, to={element}",
        f"  {product} = matmul %x{i}, %y{i}{flags}, to={result}",
    ]
    if end == "root":  # a tail that no registers have
        body += [f"  %s{i} = sqrt {product}", f"  %f{i} = floor %s{i}", f"  @r{i} = mul %f{i}, %f{i}"]
    body += [
        f"  %g{i} = cast @r{i}, to=f32",
        f"  %m{i} = min %g{i}",
        f"  %z{i} = mul %m{i}, 0",
        f"  %limit{i + 1} = add %z{i}, 0.3",
    ]
    tiles.append({
        "device": device, "code": code, "processors": int(processors), "numerics": "fast", "operands": element,
        "result": result, "m": rows, "n": columns, "k": depth, "batches": batch[0] if batch else 1, "ta": ta, "tb": tb,
        "share": int(processors), "rows": 128, "columns": part // 2, "part_columns": part, "split": 1, "paired": True,
        "seconds": 1e-6,
    })  # yapf: disable

# A product that its loop does again and again: both blocks come to each other in every trip.
declared += [".state @d f32[256,256] = uniform(0, 1, key=301)", ".output @loop bf16[256,256]"]
body += [
    "  %first = lt @d, 0.3",
    "  %step = cast %first, to=bf16",
    "  @loop = copy %step",
    "  loop $i = 0 until 6 {",
    "    %next = matmul @loop, %step",
    "    %odd = gt %next, 23",
    "    @loop = cast %odd, to=bf16",
    "  }",
]
tiles.append({
    "device": device, "code": code, "processors": int(processors), "numerics": "fast", "operands": "bf16",
    "result": "bf16", "m": 256, "n": 256, "k": 256, "batches": 1, "ta": False, "tb": False,
    "share": int(processors), "rows": 128, "columns": 64, "part_columns": 128, "split": 1, "paired": True,
    "seconds": 1e-6,
})  # yapf: disable

with open(f"{folder}/pairs.trek", "w") as file:
    print("\n".join(declared + [".func main() {"] + body + ["}"]), file=file)
with open(f"{folder}/tiles.json", "w") as file:
    json.dump({"format": "trek tiles", "version": 1, "tiles": tiles}, file)
