"""Conformance cases of matmul, softmax and cross-entropy."""

from cases_reduce import thirds
from trek_oracle.cases import Case, special_numbers, tensor
from trek_oracle.elements import INTS, REALS, compute_type

INFINITY = float("inf")

# ---- matmul --------------------------------------------------------------------------------------


def matmul_cases(row):
    for dtype in row.dtypes:
        yield Case(
            dtype, "@r = matmul @a, @b", {"a": thirds(dtype, (2, 3)), "b": thirds(dtype, (3, 2))}
        )
    for layout, a, b in (
        ("ta", (3, 2), (3, 4)),
        ("tb", (2, 3), (4, 3)),
        ("ta, tb", (3, 2), (4, 3)),
    ):
        yield Case(
            layout, f"@r = matmul @a, @b, {layout}", {"a": thirds("f32", a), "b": thirds("f32", b)}
        )
    yield Case(
        "batches that broadcast",
        "@r = matmul @a, @b, tb",
        {"a": thirds("f32", (2, 1, 2, 3)), "b": thirds("f32", (3, 1, 3))},
    )
    yield Case(
        "K = 0 gives +0; no rows",
        "@r = matmul @a, @b\n@q = matmul @c, @b",
        {
            "a": tensor("f32", [], (2, 0)),
            "b": tensor("f32", [], (0, 2)),
            "c": tensor("f32", [], (0, 0)),
        },
    )
    yield Case(
        "K = 65: two blocks",
        "@r = matmul @a, @b",
        {"a": thirds("f32", (1, 65)), "b": thirds("f32", (65, 2))},
    )
    yield Case(
        "K = 4160: two segments",
        "%a = broadcast @a, shape=[64,65]\n%b = reshape %a, shape=[4160,1]\n"
        "%c = reshape %a, shape=[1,4160]\n@r = matmul %c, %b",
        {"a": thirds("f32", (65,))},
    )
    yield Case(
        "an accumulator of -0 and padding would differ",
        "@r = matmul @a, @b",
        {"a": tensor("f32", [[-1e-30, 1.0]]), "b": tensor("f32", [[1e-30], [-0.0]])},
    )
    specials = special_numbers("f32")
    yield Case(
        "special values, K = 1",
        "@r = matmul @a, @b",
        {"a": tensor("f32", [[n] for n in specials]), "b": tensor("f32", [specials])},
    )
    yield from matmul_tails()
    yield from matmul_types()


def matmul_tails():
    operands = {"a": thirds("f32", (2, 3)), "b": thirds("f32", (3, 3))}
    bias = {"c": tensor("f32", [0.1, -5.0, 0.3])}
    yield Case(
        "scale, then bias, then tail",
        "@s = matmul @a, @b, scale=0.3\n@t = matmul @a, @b, bias=@c\n"
        "@u = matmul @a, @b, scale=0.3, bias=@c, tail=relu\n@v = matmul @a, @b, tail=gelu.tanh\n"
        "@w = matmul @a, @b, bias=@c, tail=elu",
        {**operands, **bias},
    )
    yield Case(
        "bias of other shapes",
        "@s = matmul @a, @b, bias=@c\n@t = matmul @a, @b, bias=@d",
        {**operands, "c": tensor("f32", 0.7, ()), "d": tensor("f32", [[1.1], [-2.2]])},
    )
    yield Case(
        "scale from a scalar",
        "@r = matmul @a, @b, scale=$s",
        operands,
        scalars={"s": ("f32", 0.125)},
        outputs={"r": ("f32", (2, 3))},
    )
    yield Case(
        "f16: everything in f32, rounded once",
        "@r = matmul @a, @b, scale=0.1, bias=@c, tail=tanh\n" "@q = matmul @a, @b, bias=@d",
        {
            "a": thirds("f16", (2, 3)),
            "b": thirds("f16", (3, 2)),
            "c": tensor("f16", [0.1, -0.2]),
            "d": tensor("f32", [0.1, -0.2]),
        },
    )
    yield Case(
        "integers with a bias",
        "@r = matmul @a, @b, bias=@c\n@q = matmul @d, @e, bias=@f",
        {
            "a": tensor("i8", [[-128, 127]]),
            "b": tensor("i8", [[127], [-128]]),
            "c": tensor("i32", [2**31 - 1]),
            "d": tensor("u64", [[2**63, 3]]),
            "e": tensor("u64", [[2], [5]]),
            "f": tensor("i64", [[7]]),
        },
    )


def matmul_types():
    for dtype in REALS:
        lines = "\n".join(f"@{to} = matmul @a, @b, to={to}" for to in REALS if to != dtype)
        yield Case(
            f"from {dtype} to other floats",
            lines + "\n@f8 = matmul @a, @b, to=f8e4m3",
            {"a": thirds(dtype, (1, 3)), "b": thirds(dtype, (3, 2))},
        )
    for dtype in INTS:
        yield Case(
            f"from {dtype} to other types",
            "@a32 = matmul @a, @b, to=i32\n@a64 = matmul @a, @b, to=i64\n"
            "@f = matmul @a, @b, to=f32\n@h = matmul @a, @b, to=bf16",
            {
                "a": tensor(dtype, [[100, 101, 127]]),
                "b": tensor(dtype, [[120, 3], [1, 5], [77, 7]]),
            },
        )


# ---- softmax and cross-entropy -------------------------------------------------------------------


def softmax_cases(row):
    m = row.mnemonic
    names = ["d", "x"] if m.endswith(".grad") else ["x"]
    operands = ", ".join("@" + n for n in names)
    for dtype in row.dtypes:
        tensors = {n: thirds(dtype, (3, 4) if i == 0 else (3, 4)) for i, n in enumerate(names)}
        yield Case(dtype, f"@a = {m} {operands}\n@b = {m} {operands}, axis=0", tensors)
        specials = special_numbers(dtype)
        rows = [[a, b, 0.5] for a, b in zip(specials, specials[4:] + specials[:4])]
        yield Case(
            f"{dtype}: special values",
            f"@r = {m} {operands}",
            {n: tensor(dtype, rows) for n in names},
        )
    yield Case(
        "nothing, one element",
        f"@r = {m} {', '.join('@a' for _ in names)}\n" f"@q = {m} {', '.join('@b' for _ in names)}",
        {"a": tensor("f32", [], (2, 0)), "b": tensor("f32", [[3.0]])},
    )
    yield Case(
        "40 elements: partials meet",
        f"@r = {m} {operands}",
        {n: thirds("f32", (40,)) for n in names},
    )


def cross_entropy_cases(row):
    m = row.mnemonic
    gradient, both = m.endswith(".grad"), m.endswith("with_grad")
    needs_dl = gradient and not both
    results = "@l, @g" if both else "@r"
    first = "@d, " if needs_dl else ""

    def case(title, z, t, reduction, trap=None):
        rows = z.shape[:-1]
        tensors = {"z": z, "t": t}
        if needs_dl:
            c = compute_type(z.dtype)
            tensors["d"] = thirds(c, rows) if reduction == "none" else tensor(c, 0.7, ())
        text = "" if reduction is None else f", {reduction}"
        loss, dz = (compute_type(z.dtype), ()), (z.dtype, z.shape)  # where a trap must be declared
        outputs = {"l": loss, "g": dz} if both else {"r": dz if needs_dl else loss}
        return Case(
            title,
            f"{results} = {m} {first}@z, @t{text}",
            tensors,
            outputs=outputs if trap else {},
            trap=trap,
        )

    for dtype in row.dtypes:
        for reduction in ("mean", "sum", "none"):
            yield case(
                f"{dtype}, {reduction}", thirds(dtype, (3, 4)), tensor("i64", [3, 0, 1]), reduction
            )
    for u in INTS:
        yield case(
            f"classes of {u}, the default is mean", thirds("f32", (2, 3)), tensor(u, [2, 0]), None
        )
    yield case("rank 1, rank 3", thirds("f32", (5,)), tensor("i32", 4, ()), "mean")
    yield case("rank 3", thirds("f32", (2, 2, 3)), tensor("u8", [[0, 1], [2, 0]]), "none")
    yield case(
        "special values",
        tensor(
            "f32",
            [
                [INFINITY, 0, 1],
                [-INFINITY, 0, 1],
                [float("nan"), 0, 1],
                [100, -100, 0],
                [-0.0, 0.0, 3e38],
            ],
        ),
        tensor("i8", [1, 0, 1, 1, 2]),
        "none",
    )
    for reduction in ("mean", "sum"):
        yield case(
            f"no rows, {reduction}", tensor("f32", [], (0, 3)), tensor("i64", [], (0,)), reduction
        )
    yield case(
        "40 rows: partials meet",
        thirds("f32", (40, 2)),
        tensor("u8", [i % 2 for i in range(40)]),
        "mean",
    )
    for title, t in (
        ("a class beyond the last", tensor("u8", [0, 3])),
        ("a negative class", tensor("i64", [-1, 0])),
    ):
        yield case(title, thirds("f32", (2, 3)), t, "mean", "index-out-of-range")


def cases_of(row):
    if row.mnemonic == "matmul":
        return list(matmul_cases(row))
    return list(
        cross_entropy_cases(row) if row.mnemonic.startswith("cross") else softmax_cases(row)
    )
