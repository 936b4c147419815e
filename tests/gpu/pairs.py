"""Fast products in tiles that only code made for one product has: those that two blocks work on together (plan::Pairing),
parts of widths of their own, transposed ones, and tiles whose k are cut into a run for each processor (plan/runs.h). A
program, and a file of tiles that has it done so on a device.

All sums are of integers that f32 holds, so that any order gives the same bits. Each product is in a loop of one trip, so
that nothing stands beside it and its share is the whole device: tiles are remembered by that. On devices of many processors,
where a small product goes another way, K is as many times as large as makes it none.

trap.trek traps in a task that one block of a pair has before the product, for which the other does not wait.

    python3 tests/gpu/pairs.py DEVICE CODE PROCESSORS FOLDER [I/N]  # pairs.trek, trap.trek and tiles.json
        # the I-th of N programs that share out the products: the driver compiles a program on one processor
"""

import json
import sys

CASES = [  # pairs; type, rows, columns, K, transposes ("T": parts are transposed), columns of a part, result, what follows;
    # parts of a tile; a batch
    ("depth", "bf16", 70, 184, 328, "", 64, "f32", "", 1),
    ("depth", "f16", 200, 232, 448, "tb", 128, "f32", "bias", 1),
    ("depth", "bf16", 136, 360, 512, "ta", 192, "bf16", "", 1),
    ("depth", "bf16", 130, 480, 584, "ta tb", 256, "f32", "root", 1),
    ("depth", "bf16", 128, 512, 640, "tb", 256, "bf16", "relu", 1),
    ("depth", "f32", 100, 232, 164, "", 128, "f32", "", 1),
    ("depth", "f32", 72, 126, 256, "ta tb", 64, "f32", "root", 1),
    ("depth", "bf16", 40, 64, 256, "tb", 64, "f32", "", 1, 3),
    ("columns", "bf16", 256, 200, 328, "tb", 128, "f32", "", 1),
    ("columns", "f16", 300, 256, 448, "", 256, "bf16", "bias", 1),
    ("columns", "bf16", 640, 328, 136, "ta", 192, "f32", "", 2),
    ("columns", "bf16", 1000, 512, 72, "ta tb", 256, "bf16", "relu", 2),
    ("columns", "f32", 200, 232, 164, "", 128, "f32", "root", 1),
    ("columns", "f32", 256, 136, 96, "ta tb", 128, "f32", "", 1),
    ("columns", "bf16", 250, 128, 264, "tb", 128, "f32", "", 1, 3),
    ("alone", "bf16", 100, 300, 200, "tb", 48, "f32", "", 1),
    ("alone", "f16", 250, 200, 264, "ta", 112, "bf16", "bias", 1),
    ("alone", "bf16", 130, 632, 200, "tb", 320, "f32", "root", 1),
    ("alone", "bf16", 200, 584, 136, "", 304, "bf16", "", 1),
    ("alone", "f16", 300, 288, 328, "ta tb", 288, "f16", "relu", 1),
    ("alone", "bf16", 140, 272, 200, "ta", 272, "f32", "bias", 1),
    ("alone", "bf16", 200, 328, 136, "tb", 80, "bf16", "", 1, 3),
    ("alone", "bf16", 212, 200, 264, "T", 112, "bf16", "", 1),
    ("alone", "bf16", 104, 360, 200, "tb T", 64, "f32", "", 1),
    ("alone", "f16", 632, 136, 136, "ta tb T", 320, "f16", "bias", 1),
    ("alone", "bf16", 300, 250, 200, "tb T", 160, "bf16", "relu", 1),
    ("alone", "bf16", 160, 131, 264, "ta T", 80, "bf16", "", 1),
    ("alone", "bf16", 288, 200, 200, "ta T", 288, "f32", "root", 1),
    ("alone", "bf16", 280, 136, 136, "T", 96, "bf16", "", 1, 3),
    ("depth", "bf16", 200, 320, 456, "tb", 160, "bf16", "", 1),
    ("depth", "bf16", 136, 640, 328, "tb", 320, "f32", "bias", 1),
    ("depth", "bf16", 192, 200, 512, "T", 96, "bf16", "", 1),
    ("depth", "f16", 512, 264, 328, "ta T", 256, "f32", "root", 1),
    ("columns", "bf16", 256, 480, 200, "tb", 240, "bf16", "", 1),
    ("columns", "bf16", 300, 640, 136, "tb", 320, "f32", "", 1),
    ("columns", "bf16", 400, 300, 264, "T", 208, "bf16", "bias", 1),
    ("columns", "bf16", 640, 384, 136, "ta T", 320, "bf16", "", 1),
    ("columns", "f16", 288, 256, 200, "tb T", 144, "f32", "", 1),
    ("alone", "f32", 201, 232, 164, "T", 128, "f32", "", 1),
    ("alone", "f32", 136, 300, 201, "ta T", 64, "f32", "bias", 1),
    ("alone", "f32", 301, 184, 136, "T", 64, "bf16", "relu", 1),
    ("alone", "f32", 184, 328, 103, "ta T", 128, "f32", "root", 1),
    ("alone", "f32", 141, 132, 72, "T", 128, "f32", "relu", 1, 3),
    ("alone", "f32", 515, 136, 164, "T", 256, "f32", "bias", 1),
    ("alone", "f32", 135, 600, 164, "T", 128, "f32", "relu", 2),
    ("alone", "f32", 384, 200, 137, "ta T", 192, "f32", "", 1),
    ("depth", "f32", 193, 200, 512, "T", 128, "f32", "bias", 1),
    ("depth", "f32", 128, 264, 329, "ta T", 64, "f32", "root", 1),
    ("columns", "f32", 401, 300, 264, "T", 128, "f32", "bias", 1),
    ("columns", "f32", 256, 512, 137, "ta T", 128, "f32", "", 1),
    ("runs", "bf16", 256, 128, 520, "", 64, "f32", "bias", 1),
    ("runs", "bf16", 300, 200, 600, "ta", 112, "bf16", "relu", 1),
    ("runs", "f16", 130, 600, 1000, "tb", 256, "f32", "root", 1),
    ("runs", "bf16", 600, 328, 528, "ta tb T", 192, "bf16", "bias", 1),
    ("runs", "bf16", 300, 250, 1096, "tb T", 160, "bf16", "relu", 1),
    ("runs", "f16", 140, 320, 1608, "ta", 320, "f32", "", 1),
    ("runs columns", "bf16", 256, 200, 520, "ta", 128, "f32", "bias", 1),
    ("runs columns", "f16", 500, 500, 1096, "tb", 256, "bf16", "", 1),
    ("runs columns", "bf16", 400, 232, 600, "ta T", 208, "f32", "root", 1),
]  # yapf: disable

device, code, processors, folder, *which = sys.argv[1:]
part_number, part_count = map(int, which[0].split("/")) if which else (1, 1)
SMALL = 2**27 if int(processors) > 16 else 0  # multiplications of a product that may go another way
declared = []
body = []
tiles = []
begun = []  # where what belongs together begins in both


def begin():
    begun.append((len(declared), len(body)))


def remember(pairs, element, rows, columns, depth, ta, tb, part, result, parts=1, batches=1, transposed=False):
    height, width = 128 * parts, part // 2 if pairs == "depth" else part
    form = {"runs": int(processors)} if "runs" in pairs else {}
    form.update({"pairs": kind for kind in ["depth", "columns"] if kind in pairs})
    if transposed:
        height, width = width, height
        form["transposed"] = True
    tiles.append({
        "device": device, "code": code, "processors": int(processors), "numerics": "fast", "operands": element,
        "result": result, "m": rows, "n": columns, "k": depth, "batches": batches, "ta": ta, "tb": tb,
        "share": int(processors), "rows": height, "columns": width, "part_columns": part, "split": 1, **form,
        "seconds": 1e-6,
    })  # yapf: disable


for i, (pairs, element, rows, columns, depth, form, part, result, end, parts, *batch) in enumerate(CASES):
    begin()
    depth *= 1 if element == "f32" else 1 + SMALL // (rows * columns * depth * (batch or [1])[0])
    if "runs" in pairs:  # each run has at least 12 steps of 64 k
        high, wide = (part, 128) if "T" in form else (128, part)
        steps = 12 * int(processors) // (-(-rows // high) * -(-columns // wide))
        depth += max(0, 64 * steps - depth + 64) // 8 * 8
    ta, tb = "ta" in form, "tb" in form
    left = f"{depth},{rows}" if ta else f"{rows},{depth}"
    right = f"{columns},{depth}" if tb else f"{depth},{columns}"
    out = f"{rows},{columns}"
    if batch:
        left, right, out = f"{batch[0]},{left}", f"{batch[0]},{right}", f"{batch[0]},{out}"
    declared += [
        f".state @a{i} f32[{left}] = uniform(0, 1, key={i + 1})",
        f".state @b{i} f32[{right}] = uniform(0, 1, key={i + 101})",
        f".state @c{i} f32[{columns}] = uniform(0, 1, key={i + 201})",
        f".output @r{i} {result}[{out}]",
    ]
    flags = "".join(f", {flag}" for flag in form.split() if flag != "T")
    flags += {"bias": f", bias=%e{i}, tail=relu", "relu": ", tail=relu"}.get(end, "")
    product = f"%p{i}" if end == "root" else f"@r{i}"
    body += [
        f"  loop $once{i} = 0 until 1 {{",
        f"  %u{i} = lt @a{i}, @limit",
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
        f"  @limit = add @limit, %z{i}",
        "  }",
    ]
    remember(pairs, element, rows, columns, depth, ta, tb, part, result, parts, *(batch or [1]), "T" in form.split())

# Products that a loop does again and again: both blocks come to each other in every trip.
for pairs, size, part, trips in [("depth", 256, 128, 6), ("columns", 512, 192, 6), ("runs columns", 512, 256, 2)]:
    begin()
    at = f"{pairs.replace(' ', '_')}_loop"
    size *= 4 if size**3 <= SMALL else 1
    declared += [f".state @d_{at} f32[{size},{size}] = uniform(0, 1, key=301)", f".output @{at} bf16[{size},{size}]"]
    body += [
        f"  %first_{at} = lt @d_{at}, 0.3",
        f"  %step_{at} = cast %first_{at}, to=bf16",
        f"  @{at} = copy %step_{at}",
        f"  loop $i = 0 until {trips} {{",
        f"    %next_{at} = matmul @{at}, %step_{at}",
        f"    %odd_{at} = gt %next_{at}, {size * 23 // 256}",
        f"    @{at} = cast %odd_{at}, to=bf16",
        "  }",
    ]
    remember(pairs, "bf16", size, size, size, False, False, part, "bf16")

# Products of one form one behind the other, with which rings go on; with single tasks between some, so that of a pair's blocks
# one goes on and the other does not.
for pairs, form, part in [("depth", "", 128), ("columns", "tb", 128), ("columns", "", 192)]:
    begin()
    at = f"{pairs}{part}_row"
    size = 1024 if SMALL else 384
    for t in range(3):
        declared += [f".state @d{t}_{at} f32[{size},{size}] = uniform(0, 1, key={401 + t})"]
        body += [f"  %h{t}_{at} = lt @d{t}_{at}, 0.3", f"  %k{t}_{at} = cast %h{t}_{at}, to=bf16"]
    flag = f", {form}" if form else ""
    for t in range(4):
        declared += [f".output @r{t}_{at} f32[{size},{size}]", f".state @n{t}_{at} i64[4] = 12", f".output @q{t}_{at} i64[4]"]
        body += [f"  loop $i = 0 until {t + 1} {{"]
        for u in range(4):
            if u == t:
                body += [f"    @q{t}_{at} = add @n{t}_{at}, $i"]
            body += [f"    @r{t}_{at} = matmul %k{(t + u) % 3}_{at}, %k{(t + 2 * u) % 3}_{at}{flag}, to=f32"]
        body += ["  }"]
    remember(pairs, "bf16", size, size, size, False, form == "tb", part, "f32")

begin()
chosen_declared = [".trek 1.0", ".state @limit f32[1] = 0.3"]
chosen_body = []
# Those with the most products are the last.
for i in range(len(begun) - 1):
    if (len(begun) - 2 - i) % part_count == part_number - 1:
        chosen_declared += declared[begun[i][0]:begun[i + 1][0]]
        chosen_body += body[begun[i][1]:begun[i + 1][1]]

# Single tasks in front of the product, on processors 1 to 4; those of one pair divide by 0 in the trips that are asked for.
side = 1024 if SMALL else 256
long = -(-64 * 12 * int(processors) // (side // 128) ** 2 // 512) * 512  # k of a product in runs
trap = [
    ".trek 1.0",
    ".param $even i64 = -1",
    ".param $odd i64 = -1",
    f".state @d f32[{side},{side}] = uniform(0, 1, key=1)",
    f".state @e bf16[{side},{side}]",
    f".state @f f32[{side},{long}] = uniform(0, 1, key=2)",
    f".output @c bf16[{side},{side}]",
]
for t in range(4):
    trap += [f".state @n{t} i64[4] = 12", f".output @q{t} i64[4]"]
trap += [".func main() {", "  %ones = lt @d, 0.3", "  @e = cast %ones, to=bf16"]
trap += ["  %many = lt @f, 0.3", "  %g = cast %many, to=bf16"]
for pairs in ["depth", "columns", "runs columns"]:
    trap += ["  loop $i = 0 until 3 {", "    $x = sub $i, $even", "    $y = sub $i, $odd"]
    trap += [f"    @q{t} = div @n{t}, {['1', '$x', '$y', '1'][t]}" for t in range(4)]
    factor, depth = ("%g", long) if "runs" in pairs else ("@e", side)
    trap += [f"    @c = matmul {factor}, {factor}" + (", tb" if "columns" in pairs else ""), "  }"]
    remember(pairs, "bf16", side, side, depth, False, "columns" in pairs, 128, "bf16")
trap += ["}"]
with open(f"{folder}/trap.trek", "w") as file:
    print("\n".join(trap), file=file)

with open(f"{folder}/pairs.trek", "w") as file:
    print("\n".join(chosen_declared + [".func main() {"] + chosen_body + ["}"]), file=file)
with open(f"{folder}/tiles.json", "w") as file:
    json.dump({"format": "trek tiles", "version": 1, "tiles": tiles}, file)
