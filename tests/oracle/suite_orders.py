"""Suite cases of what is summed or ordered: reductions, matmul, softmax and losses.

Sizes are chosen for the ways an engine may split work: more than a tile of a reduction (1024) and
more than 32 of them, more than a block (64) and a segment (4096) of a dot product, odd numbers,
axes of every place.
"""

from trek_oracle.cases import Case
from trek_oracle.elements import REALS, STORAGE, Value, compute_type, is_real, narrow

# ---- reduce --------------------------------------------------------------------------------------

REDUCED = [
    ((40_001,), None),
    ((7, 33), [1]),
    ((1100, 37), [0]),
    ((37, 1100), [1]),
    ((5, 70, 9), [1]),
    ((5, 70, 9), [0, 2]),
    ((3, 4, 5, 6), [-1, 1]),
    ((2, 1025, 3), [1, 2]),
    ((31,), None),
    ((32, 3), [0]),
    ((1024, 2), [0]),
    ((2, 2048), [1]),
    ((1, 1), None),
    ((300, 257), [0]),
    ((300, 257), [1]),
]


def reduce(row, d):
    m = row.mnemonic
    if m in ("cumsum", "sort", "argsort", "top_k"):
        yield from along_axis(m, d)
        return
    for shape, axes in REDUCED:
        attributes = "" if axes is None else f", axis={axes}"
        attributes += ", keep" if d.rng.random() < 0.3 else ""
        attributes += f", to={d.index_type()}" if m.startswith("arg") else ""
        data = scaled_for_products(d, shape) if m == "prod" else d.plain(*shape)
        yield Case(f"{shape} over {axes}", f"@r = {m} @x{attributes}", {"x": data})
    yield Case("mixed", f"@r = {m} @x, axis=1", {"x": d.mixed(40, 67)})
    yield Case("mixed, few specials", f"@r = {m} @x, axis=0", {"x": d.mixed(3, 400)})


def scaled_for_products(d, shape):
    """Numbers near 1, so that a product of thousands stays finite."""
    if not is_real(d.dtype):
        return d.plain(*shape)
    numbers = 1 + d.rng.standard_normal(shape) * 0.01
    return Value(d.dtype, narrow(d.dtype, numbers.astype(STORAGE[compute_type(d.dtype)])))


def along_axis(m, d):
    for shape, axis in (
        ((5000,), 0),
        ((33, 70), 1),
        ((70, 33), 0),
        ((3, 65, 5), 1),
        ((3, 65, 5), -1),
        ((1, 1), 0),
    ):
        for variant in {"cumsum": [""], "top_k": ["", ", smallest"]}.get(m, ["", ", descending"]):
            results = "@r, @i" if m == "top_k" else "@r"
            k = f", k={d.rng.integers(0, shape[axis] + 1)}" if m == "top_k" else ""
            to = f", to={d.index_type()}" if m in ("top_k", "argsort") else ""
            data = d.plain(*shape) if m == "cumsum" else d.mixed(*shape)
            yield Case(
                f"{shape}, axis {axis}{variant}",
                f"{results} = {m} @x, axis={axis}{k}{to}{variant}",
                {"x": data},
            )
    if m == "cumsum":
        yield Case("mixed", "@r = cumsum @x", {"x": d.mixed(50, 80)})


# ---- matmul --------------------------------------------------------------------------------------


def matmul(row, d):
    real = is_real(d.dtype)

    def case(title, a, b, attributes="", **more):
        return Case(
            title, f"@r = matmul @a, @b{attributes}", {"a": d.plain(*a), "b": d.plain(*b), **more}
        )

    for m, k, n in (
        (1, 1, 1),
        (3, 5, 7),
        (17, 64, 9),
        (8, 65, 33),
        (2, 129, 70),
        (1, 4096, 3),
        (3, 4097, 2),
        (2, 9000, 5),
        (130, 3, 1),
        (1, 700, 130),
        (65, 300, 96),
    ):
        yield case(f"{m}x{k}x{n}", (m, k), (k, n))
    yield case("300x257x130", (300, 257), (257, 130))
    yield case("ta", (257, 66), (257, 35), ", ta")
    yield case("tb", (66, 257), (35, 257), ", tb")
    yield case("ta, tb", (130, 33), (18, 130), ", ta, tb")
    yield case("batch", (3, 17, 70), (3, 70, 19))
    yield case("batches broadcast, tb", (2, 1, 9, 67), (3, 5, 67), ", tb")
    yield case("one batch, many rows, ta", (4, 67, 9), (67, 5), ", ta")
    yield Case("mixed", "@r = matmul @a, @b", {"a": d.mixed(11, 70), "b": d.mixed(70, 13)})
    for to in (REALS + ["f8e4m3", "f8e5m2"] if real else ["i32", "i64"] + REALS):
        yield case(f"to {to}", (9, 66), (66, 34), f", to={to}")
    accumulator = compute_type(d.dtype) if real else "i64" if d.dtype in ("i64", "u64") else "i32"
    for shape in ((34,), (9, 1), (), (1, 34), (9, 34)):
        kinds = {d.dtype, accumulator} if real else {accumulator}
        for kind in sorted(kinds):
            extra = f", scale={d.number()}" if real else ""
            yield case(
                f"bias {kind}{list(shape)}",
                (9, 66),
                (66, 34),
                extra + ", bias=@c",
                c=d.plain(*shape, dtype=kind),
            )
    for tail in TAILS if real else []:
        yield case(f"tail {tail}", (9, 66), (66, 34), f", tail={tail}, bias=@c", c=d.plain(34))


TAILS = (
    "floor ceil round exp log sqrt rsqrt sin cos tanh sigmoid erf relu leaky_relu elu gelu "
    "gelu.tanh silu mish softplus hardswish"
).split()


# ---- softmax, cross-entropy ----------------------------------------------------------------------


def loss(row, d):
    m = row.mnemonic
    if m.startswith("cross"):
        yield from cross_entropies(m, d)
        return
    names = ["d", "x"] if m.endswith(".grad") else ["x"]
    for shape, axis in (
        ((33, 70), 1),
        ((70, 33), 0),
        ((3, 1100), -1),
        ((2, 40, 3), 1),
        ((4000,), 0),
    ):
        yield Case(
            f"{shape}, axis {axis}",
            f"@r = {m} {', '.join('@' + n for n in names)}, axis={axis}",
            {n: d.plain(*shape) for n in names},
        )
    yield Case(
        "mixed",
        f"@r = {m} {', '.join('@' + n for n in names)}",
        {n: d.mixed(300, 5) for n in names},
    )


def cross_entropies(m, d):
    both, needs_dl = m.endswith("with_grad"), m.endswith("y.grad")
    for reduction in ("mean", "sum", "none"):
        for shape in ((128, 10), (3, 40, 7), (2000, 3), (5, 1100), (9,)):
            z, t = d.plain(*shape), d.index(d.index_type(), shape[-1], *shape[:-1])
            tensors, text = {"z": z, "t": t}, "@z, @t"
            if needs_dl:
                tensors["d"] = d.plain(
                    *(shape[:-1] if reduction == "none" else ()), dtype=compute_type(d.dtype)
                )
                text = "@d, " + text
            yield Case(
                f"{shape}, {reduction}",
                f"{'@l, @g' if both else '@r'} = {m} {text}, {reduction}",
                tensors,
            )
