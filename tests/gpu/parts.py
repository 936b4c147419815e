"""Strict products of f32 that compiled programs alone have, of random numbers, so that the order of sums shows: whose k
several tasks share, in runs (plan/runs.h), of one segment of k and of several, in one node or in a node for each, with tails
that registers have and others; in wide parts (device/matrix_cut.h); and in parts that an optimizer adds to its
gradient, one of each. A program, and a file of tiles that has it done so on a device.

    python3 tests/gpu/parts.py DEVICE CODE PROCESSORS FOLDER  # parts.trek and tiles.json
"""

import json
import sys

device, code, processors, folder = sys.argv[1:]
processors = int(processors)

# Rows and columns that end within a tile, of a few tiles more than there are processors.
down = int(processors**0.5) + 1
across = (processors + 2) // down + 1
HIGH, WIDE = 128 * down - 52, 128 * across - 56

RUNS = [  # K, transposes, what follows, trips, nodes
    (1096, "ta", "bias", 2, 1),
    (1096, "", "tanh", 1, 1),
    (776, "ta tb", "", 2, 1),
    (1544, "tb", "relu", 1, 1),
    (4168, "ta", "bias", 1, 1),
    (8328, "tb", "tanh", 1, 1),
    (12288, "ta", "bias", 1, 3),
]
BROAD = {  # rows and columns of a part: rows, columns, K, what follows, trips; transposed on the left
    (64, 96): [
        (64, 96, 512, "", 3),
        (136, 200, 248, "bias", 2),
        (300, 292, 1000, "tanh", 1),
        (184, 104, 744, "relu", 2),
        (60, 388, 4096, "bias", 1),
    ],
    (80, 64): [
        (80, 64, 512, "", 3),
        (168, 136, 248, "bias", 2),
        (300, 284, 1000, "tanh", 1),
        (76, 260, 4096, "relu", 1),
    ],
    (40, 128): [
        (40, 128, 512, "", 3),
        (88, 264, 248, "bias", 2),
        (284, 300, 1000, "tanh", 1),
        (36, 388, 4096, "relu", 1),
    ],
}
STEPS = [  # optimizer, what it has besides w and the gradient, attributes; rows, columns, K, parts
    ("adam!", ["m", "v"], "lr=0.01, step=$s", 64, 36, 20000, 3),
    ("adamw!", ["m", "v"], "lr=0.01, weight_decay=0.1, step=$s", 33, 45, 12400, 2),
    ("sgd!", [], "lr=0.01", 64, 64, 9000, 2),
    ("sgd.momentum!", ["v"], "lr=0.01", 17, 50, 24000, 6),
    ("rmsprop!", ["v"], "lr=0.01", 40, 20, 9000, 2),
]

declared = [".trek 1.0"]
body = []
tiles = []


def tensor(kind, name, rows, columns, start=""):
    declared.append(f".{kind} @{name} f32[{rows},{columns}]{start}")


def normal(key):
    return f" = normal(0, 0.1, key={key})"


def remember(m, n, k, **form):
    for ta in [False, True]:  # an operand may be turned around first
        for tb in [False, True]:
            tiles.append({
                "device": device, "code": code, "processors": processors, "numerics": "strict", "operands": "f32",
                "result": "f32", "m": m, "n": n, "k": k, "batches": 1, "ta": ta, "tb": tb,
                "share": processors, "part_columns": 0, "seconds": 1e-6, **form,
            })  # yapf: disable


def product(i, rows, columns, depth, form, end, trips):
    flags = "".join(f", {flag}" for flag in form.split())
    flags += {"bias": f", bias=@c{i}, tail=relu", "relu": ", tail=relu"}.get(end, "")
    tensor("state", f"a{i}", *([depth, rows] if "ta" in form else [rows, depth]), normal(i + 1))
    tensor("state", f"b{i}", *([columns, depth] if "tb" in form else [depth, columns]), normal(i + 101))
    declared.append(f".state @c{i} f32[{columns}]{normal(i + 201)}")
    tensor("output", f"r{i}", rows, columns)
    body.append(f"  loop $i{i} = 0 until {trips} {{")
    if end == "tanh":
        body.extend([f"    %p{i} = matmul @a{i}, @b{i}{flags}", f"    %t{i} = tanh %p{i}", f"    @r{i} = floor %t{i}"])
    else:
        body.append(f"    @r{i} = matmul @a{i}, @b{i}{flags}")
    body.extend([f"    %m{i} = max @r{i}", f"    @a{i} = add @a{i}, %m{i}", "  }"])


for i, (depth, form, end, trips, nodes) in enumerate(RUNS):
    product(i, HIGH, WIDE, depth, form, end, trips)
    remember(HIGH, WIDE, depth, rows=128, columns=128, split=nodes, runs=processors)

i = len(RUNS)
for (high, wide), products in BROAD.items():
    for rows, columns, depth, end, trips in products:
        product(i, rows, columns, depth, "ta", end, trips)
        remember(rows, columns, depth, rows=high, columns=wide, split=1)
        i += 1

for i, (opcode, besides, attributes, rows, columns, depth, parts) in enumerate(STEPS):
    tensor("state", f"x{i}", depth, rows, normal(i + 301))
    tensor("state", f"y{i}", depth, columns, normal(i + 401))
    for name in ["w", *besides]:
        tensor("state", f"{name}{i}", rows, columns, normal(i + 501) if name == "w" else "")
    operands = ", ".join(f"@{name}{i}" for name in ["w", *besides])
    body += [
        f"  loop $j{i} = 0 until 3 {{",
        f"    $s = add $j{i}, 1",
        f"    %g{i} = matmul @x{i}, @y{i}, ta",
        f"    {opcode} {operands}, %g{i}, {attributes}",
        "  }",
    ]
    remember(rows, columns, depth, rows=64, columns=64, split=parts)

with open(f"{folder}/parts.trek", "w") as file:
    print("\n".join(declared + [".func main() {"] + body + ["}"]), file=file)
with open(f"{folder}/tiles.json", "w") as file:
    json.dump({"format": "trek tiles", "version": 1, "tiles": tiles}, file)
