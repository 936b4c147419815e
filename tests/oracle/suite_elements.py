"""Suite cases of the pointwise and the move family."""

from trek_oracle.cases import Case
from trek_oracle.elements import ALL, STORAGE, is_integer, is_real

MANY = {"f32": 1_000_000, "f64": 200_000}  # random bits for functions of one number

# ---- pointwise -----------------------------------------------------------------------------------

TWO = set("add sub mul div mod maximum minimum pow eq ne lt le gt ge and or xor shl shr".split())


def pointwise(row, d):
    m, dtype = row.mnemonic, d.dtype
    count = 3 if m == "fma" else 2 if m in TWO or m.endswith(".grad") else 1
    names = "xyz"[:count]
    attributes = pointwise_attributes(m, d)
    statement = f"@r = {m} {', '.join('@' + n for n in names)}{attributes}"

    def case(title, *operands):
        if m in ("div", "mod") and is_integer(dtype):
            operands[1].data[operands[1].data == 0] = 3
        if m in ("shl", "shr") and d.rng.random() < 0.7:
            operands[1].data %= STORAGE[dtype](8 * operands[1].data.dtype.itemsize + 2)
        return Case(title, statement, dict(zip(names, operands)))

    many = MANY.get(dtype, 20_000)
    if m in ("add", "sub", "mul", "maximum", "minimum") or not is_real(dtype):
        many = 20_000
    if count == 1 and dtype in ("f16", "bf16"):
        yield case("every pattern", d.every_pattern())
    yield case("any bits", *[d.bits(many) for _ in names])
    yield case("plain", *[d.plain(many // 5) for _ in names])
    yield case("mixed, odd shape", *[d.mixed(13, 7, 11) for _ in names])
    if count > 1:
        yield case("column and row", *[d.mixed(*s) for s in ((301, 1), (257,), (1, 1))[:count]])
        yield case(
            "inner axis repeated", *[d.mixed(*s) for s in ((5, 1, 3), (1, 9, 1), (5, 9, 3))[:count]]
        )
        yield case("rank 0 and a vector", *[d.mixed(*s) for s in ((), (1031,), (1,))[:count]])


def pointwise_attributes(m, d):
    if m.startswith("clamp"):
        low, high = sorted(d.rng.integers(0, 100, 2).tolist())
        return (
            f", low={low}, high={high}"
            if not is_real(d.dtype)
            else f", low={-low / 64}, high={high / 32}"
        )
    if m.startswith("leaky_relu"):
        return f", slope={d.number()}"
    return f", alpha={d.number()}" if m.startswith("elu") else ""


# ---- move ----------------------------------------------------------------------------------------


def move(row, d):
    return MOVES[row.mnemonic](row.mnemonic, d)


def copies(m, d):
    yield Case("a vector", "@r = copy @x", {"x": d.bits(4099)})


def casts(m, d):
    for to in ALL:
        yield Case(f"to {to}, any bits", f"@r = cast @x, to={to}", {"x": d.bits(20_000)})
        yield Case(f"to {to}, plain", f"@r = cast @x, to={to}", {"x": d.mixed(33, 65)})


def fills(m, d):
    for to in ALL:
        yield Case(
            f"to {to}",
            f"@r = fill {d.number()}, shape=[37,5], to={to}\n"
            f"@q = fill {d.rng.integers(-2**62, 2**62)}, shape=[3], to={to}",
        )


def iotas(m, d):
    for to in ALL:
        start, step = d.rng.integers(-(2**62), 2**62, 2)
        yield Case(
            f"to {to}",
            f"@r = iota shape=[7,300,3], to={to}, axis=1\n"
            f"@q = iota shape=[3,70], to={to}, axis=-1, start={start}, step={step}\n"
            f"@p = iota shape=[400], to={to}, start=-200",
        )


def reshapes(m, d):
    yield Case("any", "@r = reshape @x, shape=[7,-1,5]", {"x": d.bits(35, 11)})


def permutes(m, d):
    for shape in ((129, 67), (3, 65, 34), (2, 3, 4, 5), (1, 6, 1, 5, 2)):
        axes = d.rng.permutation(len(shape)).tolist()
        yield Case(f"{shape} by {axes}", f"@r = permute @x, axes={axes}", {"x": d.bits(*shape)})
    yield Case("a transpose", "@r = permute @x, axes=[1,0]", {"x": d.bits(200, 131)})


def slices(m, d):
    yield Case("a box", "@r = slice @x, at=[3,0,5], size=[7,4,9]", {"x": d.bits(12, 4, 20)})
    yield Case(
        "strides", "@r = slice @x, at=[1,2], size=[9,30], stride=[3,2]", {"x": d.bits(30, 65)}
    )


def updates(m, d):
    yield Case(
        "a box", "@r = update @x, @y, at=[3,0,5]", {"x": d.bits(12, 4, 20), "y": d.bits(7, 4, 9)}
    )
    yield Case("in place", "update! @x, @y, at=[100]", {"y": d.bits(55)}, {"x": d.bits(300)})


def concats(m, d):
    yield Case(
        "three",
        "@r = concat @x, @y, @z, axis=1",
        {"x": d.bits(5, 3, 7), "y": d.bits(5, 11, 7), "z": d.bits(5, 1, 7)},
    )
    yield Case(
        "the last axis", "@r = concat @x, @y, axis=-1", {"x": d.bits(33, 3), "y": d.bits(33, 14)}
    )


def pads(m, d):
    yield Case(
        "all sides", "@r = pad @x, low=[1,2,0], high=[0,3,4], value=1", {"x": d.bits(5, 9, 13)}
    )


def gathers(m, d):
    for axis, shape, index in (
        (0, (50, 7), (33,)),
        (1, (3, 40, 5), (4, 9)),
        (-1, (20, 30), (1000,)),
        (0, (9,), ()),
    ):
        u = d.index_type()
        yield Case(
            f"axis {axis}, index of {u}",
            f"@r = {m} @x, @i, axis={axis}",
            {"x": d.bits(*shape), "i": d.index(u, shape[axis], *index)},
        )


def scatters(m, d):
    for axis, shape, index in (
        (0, (50, 7), (33,)),
        (1, (3, 20, 5), (4, 9)),
        (-1, (20, 30), (200,)),
        (0, (5,), (300,)),
    ):
        u, limit = d.index_type(), shape[axis]
        axis_at = axis % len(shape)
        source = shape[:axis_at] + index + shape[axis_at + 1 :]
        operands = {"i": d.index(u, limit, *index), "y": d.mixed(*source)}
        yield Case(
            f"axis {axis}, index of {u}",
            f"@r = {m} @x, @i, @y, axis={axis}",
            {"x": d.mixed(*shape), **operands},
        )
        yield Case(
            f"in place, axis {axis}",
            f"{m}! @x, @i, @y, axis={axis}",
            operands,
            {"x": d.mixed(*shape)},
        )


def broadcasts(m, d):
    yield Case("any", "@r = broadcast @x, shape=[3,5,7,9]", {"x": d.bits(5, 1, 9)})


def wheres(m, d):
    yield Case(
        "one shape",
        "@r = where @c, @x, @y",
        {"c": d.plain(1031, dtype="bool"), "x": d.bits(1031), "y": d.bits(1031)},
    )
    yield Case(
        "broadcast",
        "@r = where @c, @x, @y",
        {"c": d.plain(37, 1, dtype="bool"), "x": d.bits(65), "y": d.bits(2, 1, 1)},
    )


def one_hots(m, d):
    for to in ALL:
        yield Case(
            f"to {to}",
            f"@r = one_hot @i, depth=37, to={to}",
            {"i": d.index(d.index_type(), 37, 5, 41)},
        )


MOVES = {
    "copy": copies,
    "cast": casts,
    "fill": fills,
    "iota": iotas,
    "reshape": reshapes,
    "permute": permutes,
    "slice": slices,
    "update": updates,
    "concat": concats,
    "pad": pads,
    "gather": gathers,
    "scatter": scatters,
    "scatter.add": scatters,
    "broadcast": broadcasts,
    "where": wheres,
    "one_hot": one_hots,
}
