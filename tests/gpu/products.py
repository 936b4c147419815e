"""A program of f32 matrix products whose shapes end in the middle of tiles, blocks and segments.

Every form of transpose, a K beyond a segment of 4096 (which a plan may divide between nodes), rows and columns of
one, lines that no 16-byte copy fits, blocks of K that groups of warps take by turns (the last two, in parts of 64 and
of 128 rows), rows that are left to a node of smaller tiles (the LARGE, on 132 processors): what a fast path for products
can get wrong. With --once N a product of more than N multiplications comes in one of the forms, and the LARGE do not
come, for engines that take long.
"""
import argparse

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--once", type=float, default=float("inf"), metavar="N")
once = parser.parse_args().once

SHAPES = [  # rows, columns, K
    (128, 512, 784), (128, 10, 512), (100, 77, 130), (64, 64, 4100), (300, 300, 300),
    (784, 512, 128), (1, 512, 784), (513, 129, 65), (1024, 1024, 1024), (17, 33, 9000),
    (160, 136, 12296), (3, 40, 8200), (776, 520, 1000), (904, 1000, 4168),
]  # yapf: disable
LARGE = [(1000, 1096, 1024), (1536, 1160, 8200), (4440, 768, 776)]

lines = [".trek 1.0"]
body = []
for index, (rows, columns, depth) in enumerate(SHAPES + (LARGE if once == float("inf") else [])):
    for form in range(4):
        if rows * columns * depth > once and form != index % 4:
            continue
        left = f"{depth},{rows}" if form & 1 else f"{rows},{depth}"
        right = f"{columns},{depth}" if form & 2 else f"{depth},{columns}"
        name = f"{index}_{form}"
        lines.append(f".state @a{name} f32[{left}] = normal(0, 1, key={index * 8 + form + 1})")
        lines.append(f".state @b{name} f32[{right}] = normal(0, 1, key={index * 8 + form + 1000})")
        lines.append(f".output @c{name} f32[{rows},{columns}]")
        flags = (", ta" if form & 1 else "") + (", tb" if form & 2 else "")
        body.append(f"  @c{name} = matmul @a{name}, @b{name}{flags}")
print("\n".join(lines + [".func main() {"] + body + ["}"]))
