"""Conformance cases of the move family."""

import numpy as np

from trek_oracle.cases import Case, greatest, least_subnormal, special_numbers, tensor
from trek_oracle.elements import ALL, INTS, is_real


def counted(dtype, shape, first=1):
    """1, 2, 3 ... (of bool: every third)."""
    n = int(np.prod(shape, dtype=np.int64))
    numbers = [i % 3 == 0 for i in range(n)] if dtype == "bool" else [first + i for i in range(n)]
    return tensor(dtype, numbers, shape)


def by_type(statement, **shapes):
    """A case per element type over tensors of these shapes."""
    return [
        Case(
            dtype,
            statement,
            {n: counted(dtype, s, 1 + 20 * i) for i, (n, s) in enumerate(shapes.items())},
        )
        for dtype in ALL
    ]


def f32_case(title, statement, **shapes):
    return Case(
        title,
        statement,
        {n: counted("f32", s, 1 + 100 * i) for i, (n, s) in enumerate(shapes.items())},
    )


def copy_cases():
    for dtype in ALL:
        yield Case(
            f"{dtype}, all bits kept", "@r = copy @x", {"x": tensor(dtype, special_numbers(dtype))}
        )
    yield f32_case("nothing", "@r = copy @x", x=(0, 3))
    yield f32_case("rank 0", "@r = copy @x", x=())
    yield Case(
        "a scalar",
        "$t = copy $a\nstore! @r, $t, at=[]",
        scalars={"a": ("i64", -5)},
        outputs={"r": ("i64", ())},
    )


def castable(dtype, to):
    """Numbers that show how `dtype` becomes `to`."""
    numbers = list(special_numbers(dtype))
    if dtype == "bool":
        return numbers
    if is_real(dtype):
        numbers += [
            n for n in (0.1, -0.9, 1.5, 2.5, 127.5, -128.5, 254.9, 300.0) if n <= greatest(dtype)
        ]
        if dtype in ("f64", "f32"):
            numbers += [3e9, -3e9, 9.3e18, -1e19, 65519.9, 65520.0]
            if is_real(to) and to != dtype:  # halfway between two numbers of `to`, and either side
                step = least_subnormal(to)
                numbers += (
                    [step / 2, step * 1.5, step * 1.5000001, -step * 2.5] if step > 1e-300 else []
                )
                numbers += [greatest(to) * (1 + 2.0**-10)] if to not in ("f64", "f32") else []
    elif is_real(to):
        width = 8 * (1 + (dtype[1:] in ("16",)) + 3 * (dtype[1:] == "32") + 7 * (dtype[1:] == "64"))
        top = 2 ** (width - (dtype[0] == "i"))
        numbers += [
            n
            for n in (257, 259, 4097, 2**24 + 1, 2**24 + 3, 2**53 + 1, 2**62 + 2**54 + 1)
            if n < top
        ]
    return numbers


def cast_cases():
    for dtype in ALL:
        wanted = [to for to in ALL if to != dtype]
        lines = [f"@{to} = cast @x, to={to}" for to in wanted]
        numbers = []
        for to in wanted:
            numbers += [
                n for n in castable(dtype, to) if not any(same_number(n, m) for m in numbers)
            ]
        yield Case(f"from {dtype}", "\n".join(lines), {"x": tensor(dtype, numbers)})
    yield f32_case("nothing", "@r = cast @x, to=i8", x=(0,))
    yield Case(
        "scalars",
        "$i = cast $f, to=i64\n$d = cast $i, to=f64\n$b = cast $d, to=bool\n"
        "store! @i, $i, at=[]\nstore! @d, $d, at=[]\nstore! @b, $b, at=[]",
        scalars={"f": ("f32", -2.75)},
        outputs={"i": ("i64", ()), "d": ("f64", ()), "b": ("bool", ())},
    )


def same_number(a, b):
    return (a != a and b != b) or (a == b and np.signbit(float(a)) == np.signbit(float(b)))


def fill_cases():
    for to in ALL:
        yield Case(
            to,
            f"@r = fill 1, shape=[3], to={to}\n@q = fill 0.3, shape=[2,2], to={to}\n"
            f"@p = fill -2.5, shape=[], to={to}",
        )
    yield Case(
        "out of range of the type",
        "@a = fill 300, shape=[1], to=u8\n@b = fill -1, shape=[1], to=u64\n"
        "@c = fill 1e30, shape=[1], to=i32\n@d = fill nan, shape=[1], to=i8\n"
        "@e = fill 1e6, shape=[1], to=f16\n"
        "@f = fill true, shape=[1], to=f32",
    )
    yield Case(
        "from scalars",
        "@r = fill $v, shape=[3], to=bf16\n@q = fill $n, shape=[0,2], to=i8",
        scalars={"v": ("f64", 1 / 3), "n": ("i64", -1)},
        outputs={"r": ("bf16", (3,)), "q": ("i8", (0, 2))},
    )


def iota_cases():
    for to in ALL:
        yield Case(to, f"@r = iota shape=[5], to={to}")
    yield Case(
        "axes",
        "@a = iota shape=[2,3], to=i32\n@b = iota shape=[2,3], to=i32, axis=1\n"
        "@c = iota shape=[2,3], to=i32, axis=-1, start=10, step=-3",
    )
    yield Case(
        "wraps",
        "@a = iota shape=[4], to=u8, start=250, step=3\n"
        "@b = iota shape=[3], to=i64, start=9223372036854775806, step=1\n"
        "@c = iota shape=[4], to=f16, start=2046, step=1\n@d = iota shape=[3], to=bool, start=-1",
    )
    yield Case("nothing", "@r = iota shape=[3,0], to=f32, axis=1")


def reshape_cases():
    yield from by_type("@r = reshape @x, shape=[3,2]", x=(2, 3))
    yield f32_case("one dimension worked out", "@r = reshape @x, shape=[2,-1,2]", x=(3, 4))
    yield f32_case(
        "rank 0 and back", "%t = reshape @x, shape=[]\n@r = reshape %t, shape=[1,1]", x=(1,)
    )
    yield f32_case("nothing", "@r = reshape @x, shape=[4,0]", x=(0, 3))


def permute_cases():
    yield from by_type("@r = permute @x, axes=[1,0]", x=(2, 3))
    yield f32_case(
        "three axes", "@r = permute @x, axes=[2,0,1]\n@q = permute @x, axes=[1,-1,0]", x=(2, 3, 2)
    )
    yield f32_case("no axis", "@r = permute @x, axes=[]", x=())
    yield f32_case("nothing", "@r = permute @x, axes=[1,0]", x=(0, 2))
    yield f32_case(
        "eight axes", "@r = permute @x, axes=[7,6,5,4,3,2,1,0]", x=(1, 2, 1, 2, 1, 2, 1, 3)
    )


def slice_cases():
    yield from by_type("@r = slice @x, at=[1,0], size=[2,2]", x=(3, 3))
    yield f32_case("strides", "@r = slice @x, at=[0,1], size=[2,2], stride=[2,3]", x=(3, 5))
    yield f32_case(
        "everything, the end, nothing",
        "@r = slice @x, at=[0], size=[4]\n@q = slice @x, at=[3], size=[1]\n"
        "@p = slice @x, at=[4], size=[0]",
        x=(4,),
    )
    yield Case(
        "a computed place",
        "@r = slice @x, at=[$i,1], size=[1,2]",
        {"x": counted("f32", (3, 3))},
        scalars={"i": ("i64", 2)},
        outputs={"r": ("f32", (1, 2))},
    )
    yield Case("no axis", "@r = slice @x, at=[], size=[]", {"x": counted("f32", ())})
    for title, at, size in (
        ("beyond the end", 3, "[2]"),
        ("before the beginning", -1, "[2]"),
        ("nothing from beyond the end", 5, "[0]"),
        ("far outside", 2**63 - 1, "[2]"),
    ):
        yield Case(
            title,
            f"@r = slice @x, at=[$i], size={size}",
            {"x": counted("f32", (4,))},
            scalars={"i": ("i64", at)},
            outputs={"r": ("f32", (int(size[1]),))},
            trap="index-out-of-range",
        )


def update_cases():
    yield from by_type("@r = update @x, @y, at=[1,0]", x=(3, 3), y=(2, 2))
    yield Case(
        "in place",
        "update! @x, @y, at=[$i]",
        {"y": counted("f32", (2,), 50)},
        {"x": counted("f32", (4,))},
        scalars={"i": ("i64", 2)},
    )
    yield f32_case(
        "nothing into nothing, and into something", "@r = update @x, @y, at=[3]", x=(3,), y=(0,)
    )
    for title, at in (("beyond the end", 3), ("before the beginning", -1)):
        yield Case(
            title,
            "@r = update @x, @y, at=[$i]",
            {"x": counted("f32", (4,)), "y": counted("f32", (2,))},
            scalars={"i": ("i64", at)},
            outputs={"r": ("f32", (4,))},
            trap="index-out-of-range",
        )


def concat_cases():
    yield from by_type("@r = concat @x, @y, axis=1", x=(2, 2), y=(2, 1))
    yield f32_case(
        "three, one of them empty", "@r = concat @x, @y, @z", x=(2, 2), y=(0, 2), z=(1, 2)
    )
    yield f32_case("one alone", "@r = concat @x, axis=-1", x=(2, 2))
    yield f32_case("a tensor with itself", "@r = concat @x, @x, axis=0", x=(2,))


def pad_cases():
    yield from by_type("@r = pad @x, low=[1,0], high=[0,2]", x=(2, 2))
    yield Case(
        "with a value",
        "@r = pad @x, low=[2], high=[1], value=-0.5\n@q = pad @y, low=[1], high=[1], value=9",
        {"x": counted("f16", (2,)), "y": counted("u8", (1,))},
    )
    yield f32_case("nothing padded", "@r = pad @x, low=[1,2], high=[1,0], value=inf", x=(0, 1))
    yield f32_case("by nothing", "@r = pad @x, low=[0], high=[0]", x=(3,))


def gather_cases():
    yield from (
        Case(
            f"{dtype}",
            "@r = gather @x, @i",
            {"x": counted(dtype, (3, 2)), "i": tensor("i64", [2, 0, 2])},
        )
        for dtype in ALL
    )
    yield from (
        Case(
            f"index of {u}",
            "@r = gather @x, @i, axis=1",
            {"x": counted("f32", (2, 3)), "i": tensor(u, [[1, 2], [0, 0]])},
        )
        for u in INTS
    )
    yield Case(
        "an index of rank 0",
        "@r = gather @x, @i, axis=-1",
        {"x": counted("f32", (2, 3)), "i": tensor("i32", 1, ())},
    )
    yield Case(
        "nothing picked",
        "@r = gather @x, @i",
        {"x": counted("f32", (2, 3)), "i": tensor("i8", [], (0,))},
    )
    for title, index in (
        ("beyond the end", tensor("u8", [1, 3, 9])),
        ("negative", tensor("i8", [0, -1])),
        ("far beyond the end", tensor("u64", [0, 2**64 - 1])),
    ):
        yield Case(
            title,
            "@r = gather @x, @i",
            {"x": counted("f32", (3,)), "i": index},
            outputs={"r": ("f32", index.shape)},
            trap="index-out-of-range",
        )


def scatter_cases(mnemonic, dtypes):
    def case(title, dtype, statement="@r = {m} @x, @i, @y", index=(2, 0, 2), u="i64"):
        return Case(
            title,
            statement.format(m=mnemonic),
            {
                "x": counted(dtype, (3, 2)),
                "i": tensor(u, list(index)),
                "y": counted(dtype, (len(index), 2), 20),
            },
        )

    for dtype in dtypes:
        yield case(f"{dtype}, an index twice", dtype)
    for u in INTS:
        yield case(f"index of {u}", "f32", u=u)
    yield Case(
        "another axis",
        f"@r = {mnemonic} @x, @i, @y, axis=1",
        {
            "x": counted("f32", (2, 3)),
            "i": tensor("i32", [[1], [0]]),
            "y": counted("f32", (2, 2, 1), 30),
        },
    )
    yield case("nothing", "f32", index=())
    yield Case(
        "in place",
        f"{mnemonic}! @x, @i, @y",
        {"i": tensor("i8", [1, 1]), "y": counted("f32", (2,), 5)},
        {"x": counted("f32", (3,))},
    )
    yield Case(
        "beyond the end; nothing is written",
        f"{mnemonic}! @x, @i, @y",
        {"i": tensor("u8", [0, 3]), "y": counted("f32", (2,), 5)},
        {"x": counted("f32", (3,))},
        trap="index-out-of-range",
    )


def scatter_add_cases():
    yield from scatter_cases(
        "scatter.add", [d for d in ALL if d not in ("bool", "f8e4m3", "f8e5m2")]
    )
    # 1 + 2^-11 + 2^-11 in f16: each addition is rounded, so the small ones are lost; ascending
    # order.
    yield Case(
        "f16: each addition is rounded",
        "@r = scatter.add @x, @i, @y",
        {
            "x": tensor("f16", [1.0, 0.0]),
            "i": tensor("i8", [0, 0, 1, 1, 1]),
            "y": tensor("f16", [2.0**-11, 2.0**-11, 2.0**-11, 2.0**-11, 1.0]),
        },
    )


def broadcast_cases():
    yield from by_type("@r = broadcast @x, shape=[2,3]", x=(2, 1))
    yield f32_case(
        "new axes", "@r = broadcast @x, shape=[2,2,3]\n@q = broadcast @y, shape=[2,2]", x=(3,), y=()
    )
    yield f32_case("to nothing", "@r = broadcast @x, shape=[0,3]", x=(1, 3))


def where_cases():
    for dtype in ALL:
        yield Case(
            dtype,
            "@r = where @c, @x, @y",
            {
                "c": tensor("bool", [True, False, True]),
                "x": counted(dtype, (3,)),
                "y": counted(dtype, (3,), 20),
            },
        )
    yield Case(
        "broadcast",
        "@r = where @c, @x, @y",
        {
            "c": tensor("bool", [[True], [False]]),
            "x": counted("f32", (3,)),
            "y": counted("f32", (), 50),
        },
    )
    yield Case(
        "scalars beside a tensor",
        "@r = where @c, 1.5, @y\n@q = where $b, @y, -1.0",
        {"c": tensor("bool", [True, False]), "y": counted("f16", (2,))},
        scalars={"b": ("bool", True)},
        outputs={"r": ("f16", (2,)), "q": ("f16", (2,))},
    )
    yield Case(
        "scalars",
        "$t = where $b, $x, $y\nstore! @r, $t, at=[]",
        scalars={"b": ("bool", False), "x": ("i64", 1), "y": ("i64", 2)},
        outputs={"r": ("i64", ())},
    )


def one_hot_cases():
    for to in ALL:
        yield Case(to, f"@r = one_hot @i, depth=3, to={to}", {"i": tensor("i64", [2, 0])})
    for u in INTS:
        yield Case(
            f"index of {u}", "@r = one_hot @i, depth=2, to=f32", {"i": tensor(u, [[1], [0]])}
        )
    yield Case("nothing", "@r = one_hot @i, depth=0, to=f32", {"i": tensor("i8", [], (0,))})
    for title, index in (
        ("beyond the depth", tensor("u8", [1, 3])),
        ("negative", tensor("i32", [-1])),
    ):
        yield Case(
            title,
            "@r = one_hot @i, depth=3, to=f32",
            {"i": index},
            outputs={"r": ("f32", index.shape + (3,))},
            trap="index-out-of-range",
        )


CASES = {
    "copy": copy_cases,
    "cast": cast_cases,
    "fill": fill_cases,
    "iota": iota_cases,
    "reshape": reshape_cases,
    "permute": permute_cases,
    "slice": slice_cases,
    "update": update_cases,
    "concat": concat_cases,
    "pad": pad_cases,
    "gather": gather_cases,
    "scatter": lambda: scatter_cases("scatter", ALL),
    "scatter.add": scatter_add_cases,
    "broadcast": broadcast_cases,
    "where": where_cases,
    "one_hot": one_hot_cases,
}


def cases_of(row):
    return list(CASES[row.mnemonic]())
