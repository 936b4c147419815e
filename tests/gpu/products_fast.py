"""A program of fast products of f16 and bf16 beside strict ones in f32, with the bound that they must keep.

Each output of a fast product is within 2 K u S of the strict one, where S is the sum of the products'
magnitudes and u = 2^-24 (tensor cores cut off what they add, they do not round), and then within one rounding
to the result's type; a bias adds its own magnitude to S, and relu brings values no further apart. The shapes
are in every form of transpose and end in the middle of tiles. `@inside` says of each case whether all of its
outputs are inside.

    python3 tests/gpu/products_fast.py > products_fast.trek
    trek-run --test --numerics fast --engine resident products_fast.trek
"""

SHAPES = [  # rows, columns, K
    (128, 256, 64), (1, 1, 1), (3, 1096, 1024), (1000, 8, 72), (512, 768, 1024), (129, 264, 200),
    (77, 130, 61), (256, 50, 4104), (1, 2048, 512), (384, 384, 8), (200, 136, 8200), (16, 40, 9000),
    (333, 305, 1001), (257, 516, 65), (6, 865, 350), (130, 12, 77), (598, 1, 682), (5, 7, 5003),
    (70, 26, 3), (300, 35, 1999),
]  # yapf: disable

declared = [".trek 1.0"]
body = []
number = 0
for rows, columns, depth in SHAPES:
    for form in range(4):
        left = f"{depth},{rows}" if form & 1 else f"{rows},{depth}"
        right = f"{columns},{depth}" if form & 2 else f"{depth},{columns}"
        flags = (", ta" if form & 1 else "") + (", tb" if form & 2 else "")
        element = "bf16" if number % 2 == 0 else "f16"
        result, rounding = [("f32", 0), ("bf16", 2**-8), ("f16", 2**-11)][number % 3]
        n = number
        tail = f", bias=@c{n}, tail=relu" if number % 4 >= 2 else ""
        wide = f", bias=%c{n}, tail=relu" if tail else ""
        declared += [
            f".state @a{n} {element}[{left}] = normal(0, 1, key={n + 1})",
            f".state @b{n} {element}[{right}] = normal(0, 1, key={n + 1000})",
            f".state @c{n} {element}[{columns}] = normal(0, 1, key={n + 2000})",
        ]
        body += [
            f"  %f{n} = matmul @a{n}, @b{n}{flags}{tail}, to={result}",
            f"  %x{n} = cast @a{n}, to=f32",
            f"  %y{n} = cast @b{n}, to=f32",
            f"  %c{n} = cast @c{n}, to=f32",
            f"  %r{n} = matmul %x{n}, %y{n}{flags}{wide}",
            f"  %p{n} = abs %x{n}",
            f"  %q{n} = abs %y{n}",
            f"  %s{n} = matmul %p{n}, %q{n}{flags}",
            f"  %g{n} = cast %f{n}, to=f32",
            f"  %d{n} = sub %g{n}, %r{n}",
            f"  %e{n} = abs %d{n}",
            f"  %h{n} = abs %c{n}",
            f"  %t{n} = add %s{n}, %h{n}",
            f"  %u{n} = mul %t{n}, {2 * (depth + 1) * 2**-24!r}",
            f"  %v{n} = abs %r{n}",
            f"  %w{n} = mul %v{n}, {1.01 * rounding!r}",
            f"  %z{n} = add %u{n}, %w{n}",
            f"  %k{n} = div %e{n}, %z{n}",
            f"  %m{n} = max %k{n}",
            f"  @share{n} = copy %m{n}",
            f"  @inside{n} = le %m{n}, 1",
        ]
        declared += [f".output @share{n} f32[]", f".output @inside{n} bool[]"]
        number += 1
tests = [".test \"every output is inside its bound\" {"]
tests += [f"  expect @inside{n} = true" for n in range(number)] + ["}"]
print("\n".join(declared + [".func main() {"] + body + ["}"] + tests))
