"""A program of fast products of f32, f16 and bf16 beside sums in f64, with the bound that they must keep.

Each output of a fast product is within 2 K u S of the exact one, where S is the sum of the products' magnitudes and
u = 2^-24 (tensor cores cut off what they add, they do not round), and then within one rounding to the result's type;
f32 operands are rounded to tf32, 11 bits, which moves each product by another 2^-10 of its magnitude at most. A bias
adds its own magnitude to S, and relu brings values no further apart. The shapes are in every form of transpose and
end in the middle of tiles. `@inside` says of each case whether all of its outputs are inside.

`@nearest` is of products whose f32 operands all lie between two tf32, three quarters of the way to the greater one:
they are true of the nearest tf32 and of f32 itself, but not of operands that are cut off.

    python3 tests/gpu/products_fast.py [TYPE...] [--most N] [--part I/N] > products_fast.trek
        # those of these operands alone, of at most N multiplications; the I-th of N programs of as many products each
    trek-run --test --numerics fast --engine resident products_fast.trek
"""

import sys

SHAPES = [  # rows, columns, K; matrices of a batch
    (128, 256, 64), (1, 1, 1), (3, 1096, 1024), (1000, 8, 72), (512, 768, 1024), (129, 264, 200),
    (77, 130, 61), (256, 50, 4104), (1, 2048, 512), (384, 384, 8), (200, 136, 8200), (16, 40, 9000),
    (333, 305, 1001), (257, 516, 65), (6, 865, 350), (130, 12, 77), (598, 1, 682), (5, 7, 5003),
    (70, 26, 3), (300, 35, 1999), (196, 132, 100, 3), (640, 516, 260), (256, 256, 32768),
    (384, 1028, 36), (2, 3001, 777), (75, 3, 5682), (33, 20, 45, 3), (408, 88, 8),
    (31, 15, 4731), (4104, 1544, 1096), (1, 640, 768), (1, 64, 64), (1, 96, 3072), (1, 64, 32, 5),
    (1, 8448, 4096), (40, 16, 304), (16, 280, 120), (24, 8, 160), (8, 24, 160), (56, 48, 96),
    (16, 56, 1208), (7777, 1372, 8), (1280, 1310, 40), (1280, 1307, 72), (200, 331, 4104), (130, 388, 8),
    (136, 386, 8), (130, 387, 8), (136, 325, 8), (130, 322, 16),
]  # yapf: disable
TO = [("f32", 0), ("bf16", 2**-8), ("f16", 2**-11)]

most = float(sys.argv[sys.argv.index("--most") + 1]) if "--most" in sys.argv else float("inf")
part, parts = map(int, sys.argv[sys.argv.index("--part") + 1].split("/")) if "--part" in sys.argv else (1, 1)
types = [word for word in sys.argv[1:] if word in ("f32", "f16", "bf16")]

declared = [".trek 1.0"]
body = []
number = 0
inside = []
for index, (rows, columns, depth, *batch) in enumerate(SHAPES):
    if rows * columns * depth > most:
        continue
    for form in range(4):
        left = f"{depth},{rows}" if form & 1 else f"{rows},{depth}"
        right = f"{columns},{depth}" if form & 2 else f"{depth},{columns}"
        left = f"{batch[0]},{left}" if batch else left
        flags = (", ta" if form & 1 else "") + (", tb" if form & 2 else "")
        element = "f32" if (form + index) % 2 == 0 else ["bf16", "f16"][form // 2]
        if types and element not in types:
            continue
        of_factors = 1.001 * 2**-10 if element == "f32" else 0
        n = number
        number += 1
        if n % parts != part - 1:
            continue
        inside.append(n)
        result, rounding = TO[n % 3]
        ends = (form // 2 + index // 2) % 2 == 1
        tail = f", bias=@c{n}, tail=relu" if ends else ""
        wide = f", bias=%c{n}, tail=relu" if ends else ""
        declared += [
            f".state @a{n} {element}[{left}] = normal(0, 1, key={n + 1})",
            f".state @b{n} {element}[{right}] = normal(0, 1, key={n + 1000})",
            f".state @c{n} {element}[{columns}] = normal(0, 1, key={n + 2000})",
        ]
        # Most are read where they were written: a tail of f64 would keep those of one row from tensor cores, and others
        # from the stores that stand behind products.
        is_stored = rows == 1 or (index + form) % 3 != 0
        given = f"@f{n}" if is_stored else f"%f{n}"
        if is_stored:
            shape = f"{batch[0]}," if batch else ""
            declared += [f".output @f{n} {result}[{shape}{rows},{columns}]"]
        body += [
            f"  {given} = matmul @a{n}, @b{n}{flags}{tail}, to={result}",
            f"  %x{n} = cast @a{n}, to=f64",
            f"  %y{n} = cast @b{n}, to=f64",
            f"  %c{n} = cast @c{n}, to=f64",
            f"  %r{n} = matmul %x{n}, %y{n}{flags}{wide}",
            f"  %p{n} = abs %x{n}",
            f"  %q{n} = abs %y{n}",
            f"  %s{n} = matmul %p{n}, %q{n}{flags}",
            f"  %g{n} = cast {given}, to=f64",
            f"  %d{n} = sub %g{n}, %r{n}",
            f"  %e{n} = abs %d{n}",
            f"  %h{n} = abs %c{n}",
            f"  %t{n} = add %s{n}, %h{n}",
            f"  %u{n} = mul %t{n}, {2 * (depth + 1) * 2**-24 + of_factors!r}",
            f"  %v{n} = abs %r{n}",
            f"  %w{n} = mul %v{n}, {1.01 * rounding!r}",
            f"  %z{n} = add %u{n}, %w{n}",
            f"  %k{n} = div %e{n}, %z{n}",
            f"  %m{n} = max %k{n}",
            f"  @share{n} = copy %m{n}",
            f"  @inside{n} = le %m{n}, 1",
        ]
        declared += [f".output @share{n} f64[]", f".output @inside{n} bool[]"]

# Of 64 products of (1 + 2^-10 × 3/4)^2: exactly 1 + 2^-10 × 3/2 and a little more, of the nearest tf32 1 + 2^-10 × 2.
for form in range(4):
    a = 1 + 0.75 * 2**-10
    declared += [
        f".state @near_a{form} f32[{'64,256' if form & 1 else '256,64'}] = {a!r}",
        f".state @near_b{form} f32[{'256,64' if form & 2 else '64,256'}] = {a!r}",
        f".output @nearest{form} bool[]",
    ]
    flags = (", ta" if form & 1 else "") + (", tb" if form & 2 else "")
    body += [
        f"  %n{form} = matmul @near_a{form}, @near_b{form}{flags}",
        f"  %l{form} = min %n{form}",
        f"  @nearest{form} = ge %l{form}, {64 * (1 + 1.4 * 2**-10)!r}",
    ]
tests = [".test \"every output is inside its bound\" {"]
tests += [f"  expect @inside{n} = true" for n in inside]
tests += [f"  expect @nearest{form} = true" for form in range(4)] + ["}"]
print("\n".join(declared + [".func main() {"] + body + ["}"] + tests))
