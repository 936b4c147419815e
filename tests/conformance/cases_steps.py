"""Conformance cases of optimizers and random numbers."""

from cases_reduce import thirds
from trek_oracle.cases import Case, special_numbers, tensor
from trek_oracle.elements import INTS, compute_type

INFINITY = float("inf")

# ---- optimizers ----------------------------------------------------------------------------------

STATES = {"sgd": "w", "sgd.momentum": "wv", "adam": "wmv", "adamw": "wmv", "rmsprop": "wv"}
VARIANTS = {
    "sgd": ["lr=0.1", "lr=0.1, weight_decay=0.01"],
    "sgd.momentum": ["lr=0.1", "lr=0.1, momentum=0.5, nesterov", "lr=0.01, weight_decay=0.1"],
    "adam": [
        "lr=0.001, step=1",
        "lr=0.01, step=1000, weight_decay=0.1",
        "lr=0.1, step=3, beta1=0.5, beta2=0.9, eps=1e-3",
    ],
    "adamw": [
        "lr=0.001, step=1",
        "lr=0.01, step=1000, weight_decay=0.0",
        "lr=0.1, step=3, weight_decay=0.5",
    ],
    "rmsprop": ["lr=0.01", "lr=0.01, decay=0.9, eps=0.001, weight_decay=0.1"],
}


def optimizer_case(m, title, dtype, attributes, shape=(5,), **more):
    def of(name, kind):
        positive = [abs(float(i % 7) - 2) / 8 for i in range(shape[0] if shape else 1)]
        if name == "v" and m != "sgd.momentum":
            return tensor(kind, positive, shape)  # of squares
        return thirds(kind, shape)

    states = {n: of(n, dtype if n == "w" else compute_type(dtype)) for n in STATES[m]}
    operands = ", ".join("@" + n for n in STATES[m])
    gradient = tensor(
        dtype, [(-1) ** i * (i + 1) / 7 for i in range(shape[0] if shape else 1)], shape
    )
    return Case(title, f"{m}! {operands}, @g, {attributes}", {"g": gradient}, states, **more)


def optimizer_cases(row):
    m = row.mnemonic
    for dtype in row.dtypes:
        for attributes in VARIANTS[m]:
            yield optimizer_case(m, f"{dtype}, {attributes}", dtype, attributes)
    step = ", step=$n" if m.startswith("adam") else ""
    counter = {"n": ("i64", 7)} if step else {}
    yield optimizer_case(
        m,
        "attributes from scalars",
        "f16",
        f"lr=$lr{step}",
        scalars={"lr": ("f32", 0.05), **counter},
    )
    fixed = ", step=2" if step else ""
    yield optimizer_case(m, "nothing", "f32", f"lr=0.1{fixed}", shape=(0,))
    yield optimizer_case(m, "rank 0", "f32", f"lr=0.1{fixed}", shape=())
    yield special_step(m, fixed)
    if step:
        yield optimizer_case(
            m,
            "step 0",
            "f32",
            "lr=0.1, step=$n",
            scalars={"n": ("i64", 0)},
            trap="invalid-argument",
        )


def special_step(m, fixed):
    numbers = special_numbers("f32")
    states = {n: tensor("f32", numbers[i:] + numbers[:i]) for i, n in enumerate(STATES[m])}
    return Case(
        "special values",
        f"{m}! {', '.join('@' + n for n in STATES[m])}, @g, lr=0.5{fixed}",
        {"g": tensor("f32", numbers[5:] + numbers[:5])},
        states,
    )


def clip_norm_cases(row):
    for dtype in row.dtypes:
        tensors = {"a": thirds(dtype, (5,)), "b": thirds(dtype, (2, 2))}
        yield Case(f"{dtype}, scaled down", "@n, @c, @d = clip_norm @a, @b, max=1.0", tensors)
        yield Case(
            f"{dtype}, left as they are", "@n, @c, @d = clip_norm @a, @b, max=100.0", tensors
        )
    yield Case(
        "one, of nothing; rank 0",
        "@n, @c = clip_norm @a, max=1.0\n@m, @d = clip_norm @b, max=1.0",
        {"a": tensor("f32", [], (0,)), "b": tensor("f32", -3.0, ())},
    )
    yield Case(
        "a NaN, an infinity",
        "@n, @c = clip_norm @a, max=1.0\n@m, @d = clip_norm @b, max=1.0",
        {"a": tensor("f32", [1.0, float("nan")]), "b": tensor("f32", [1.0, INFINITY])},
    )
    yield Case(
        "the norm itself is left",
        "@n, @c = clip_norm @a, max=5.0",
        {"a": tensor("f32", [3.0, 4.0])},
    )
    yield Case(
        "max from a scalar",
        "@n, @c = clip_norm @a, max=$m",
        {"a": tensor("f16", [3.0, 4.0])},
        scalars={"m": ("f32", 0.1)},
        outputs={"n": ("f32", ()), "c": ("f16", (2,))},
    )


# ---- random --------------------------------------------------------------------------------------


def drawn_cases(row):
    m = row.mnemonic
    variants = {"uniform": ", low=-2.0, high=3.0", "normal": ", mean=10.0, std=0.5"}[m]
    from_scalar = {"uniform": ", low=-2.0, high=$x", "normal": ", mean=10.0, std=$x"}[m]
    for to in row.dtypes:
        for attributes in ("", variants):
            yield Case(f"{to}{attributes}", f"@r = {m} shape=[7], to={to}, key=42{attributes}")
    yield Case(
        "keys and offsets",
        f"@a = {m} shape=[2,3], to=f32, key=-1\n@b = {m} shape=[5], to=f32, key=7, offset=1\n"
        f"@c = {m} shape=[6], to=f32, key=7, offset=9223372036854775807\n"
        f"@d = {m} shape=[6], to=f32, key=1234567890123456789, offset=-1",
    )
    yield Case(
        "from scalars",
        f"@r = {m} shape=[5], to=f32, key=$k, offset=$o{from_scalar}",
        scalars={"k": ("i64", 5), "o": ("i64", 2), "x": ("f32", 4.0)},
        outputs={"r": ("f32", (5,))},
    )
    yield Case(
        "nothing, rank 0", f"@a = {m} shape=[0,2], to=f64, key=1\n@b = {m} shape=[], to=f64, key=1"
    )


def bernoulli_cases(row):
    for p in ("0.0", "0.5", "1.0", "0.1", "nan", "-1.0", "2.0"):
        yield Case(f"p = {p}", f"@r = bernoulli shape=[11], p={p}, key=3")
    yield Case(
        "from scalars, nothing, rank 0",
        "@r = bernoulli shape=[2,2], p=$p, key=$k, offset=4\n"
        "@a = bernoulli shape=[0], p=0.5, key=1\n@b = bernoulli shape=[], p=0.5, key=1",
        scalars={"p": ("f32", 0.3), "k": ("i64", 8)},
        outputs={"r": ("bool", (2, 2)), "a": ("bool", (0,)), "b": ("bool", ())},
    )


def permutation_cases(row):
    for to in INTS:
        yield Case(to, f"@r = permutation n=9, to={to}, key=11")
    yield Case(
        "i64 if not given; 0 and 1; offset",
        "@a = permutation n=10, key=-5\n@b = permutation n=0, key=1\n"
        "@c = permutation n=1, key=1\n@d = permutation n=33, key=5, offset=100",
    )
    yield Case("more than the type holds: modulo 2^n", "@r = permutation n=300, to=u8, key=2")


def dropout_cases(row):
    for dtype in row.dtypes:
        for p in ("0.5", "0.0", "0.1"):
            yield Case(
                f"{dtype}, p = {p}",
                f"@y, @k = dropout @x, p={p}, key=6",
                {"x": thirds(dtype, (9,))},
            )
    yield Case(
        "special values",
        "@y, @k = dropout @x, p=0.25, key=1",
        {"x": tensor("f32", special_numbers("f32"))},
    )
    yield Case(
        "from scalars; nothing",
        "@y, @k = dropout @x, p=$p, key=$n, offset=$o\n@z, @l = dropout @e, p=$p, key=1",
        {"x": thirds("f32", (2, 3)), "e": tensor("f32", [], (0,))},
        scalars={"p": ("f32", 0.4), "n": ("i64", 3), "o": ("i64", 1)},
        outputs={
            "y": ("f32", (2, 3)),
            "k": ("bool", (2, 3)),
            "z": ("f32", (0,)),
            "l": ("bool", (0,)),
        },
    )
    for p in (1.0, -0.5, float("nan")):
        yield Case(
            f"p = {p}",
            "@y, @k = dropout @x, p=$p, key=1",
            {"x": thirds("f32", (2,))},
            scalars={"p": ("f32", p)},
            outputs={"y": ("f32", (2,)), "k": ("bool", (2,))},
            trap="invalid-argument",
        )


def dropout_grad_cases(row):
    kept = tensor("bool", [True, False, True, True, False])
    for dtype in row.dtypes:
        for p in ("0.5", "0.1"):
            yield Case(
                f"{dtype}, p = {p}",
                f"@r = dropout.grad @d, @k, p={p}",
                {"d": thirds(dtype, (5,)), "k": kept},
            )
    numbers = special_numbers("f32")
    yield Case(
        "special values",
        "@r = dropout.grad @d, @k, p=0.25",
        {
            "d": tensor("f32", numbers),
            "k": tensor("bool", [i % 2 == 0 for i in range(len(numbers))]),
        },
    )
    yield Case(
        "nothing",
        "@r = dropout.grad @d, @k, p=0.5",
        {"d": tensor("f32", [], (0,)), "k": tensor("bool", [], (0,))},
    )
    yield Case(
        "p = 1",
        "@r = dropout.grad @d, @k, p=$p",
        {"d": thirds("f32", (5,)), "k": kept},
        scalars={"p": ("f32", 1.0)},
        outputs={"r": ("f32", (5,))},
        trap="invalid-argument",
    )


TABLES = {
    "clip_norm": clip_norm_cases,
    "uniform": drawn_cases,
    "normal": drawn_cases,
    "bernoulli": bernoulli_cases,
    "permutation": permutation_cases,
    "dropout": dropout_cases,
    "dropout.grad": dropout_grad_cases,
}


def cases_of(row):
    return list(TABLES.get(row.mnemonic, optimizer_cases)(row))
