"""Moves: nothing is computed but addresses, and conversions."""

import numpy as np

from .elements import Value, cast, from_number, is_real, narrow, scalar_type, widen, zeros
from .instructions import Trap, instruction


@instruction("copy", "T")
def copy(c, x):
    return c.result(x.data)


@instruction("cast", "T")
def cast_instruction(c, x):
    to = c.attributes["to"]
    return c.result(cast(x, to), to)


@instruction("fill", "any")
def fill(c, value):
    to = c.attributes["to"]
    return Value(to, np.full(c.integers("shape"), cast(value, to)))


def fill_immediate(number, to, shape):
    """`fill` of an immediate, which is as written; a real takes f64 where `to` is f64."""
    written = "f64" if isinstance(number, float) and to == "f64" else None
    if isinstance(number, bool):
        value = Value("bool", from_number("bool", number))
    elif isinstance(number, int):
        value = Value("i64", from_number("i64", number))
    else:
        value = Value(written or "f32", from_number(written or "f32", number))
    return Value(to, np.full(shape, cast(value, to)))


@instruction("iota", "")
def iota(c):
    shape = c.integers("shape")
    axis = c.integer("axis", 0) % len(shape)
    step, start = (
        np.uint64(c.integer(name, default) % 2**64) for name, default in (("step", 1), ("start", 0))
    )
    position = np.arange(shape[axis], dtype=np.uint64) * step + start  # modulo 2^64
    counts = position.view(np.int64).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return Value(
        c.attributes["to"], cast(Value("i64", np.broadcast_to(counts, shape)), c.attributes["to"])
    )


@instruction("reshape", "T")
def reshape(c, x):
    return Value(c.dtype, x.data.reshape(c.integers("shape")))


@instruction("permute", "T")
def permute(c, x):
    return Value(c.dtype, x.data.transpose(c.integers("axes")))


def check_box(at, span, shape):
    """Traps unless 0 <= at and at + span <= dimension on every axis."""
    for first, size, dimension in zip(at, span, shape):
        if first < 0 or first + size > dimension:
            raise Trap("index-out-of-range")


@instruction("slice", "T")
def slice_(c, x):
    at, size = c.integers("at"), c.integers("size")
    stride = c.integers("stride", [1] * len(at))
    span = [0 if n == 0 else (n - 1) * s + 1 for n, s in zip(size, stride)]
    check_box(at, span, x.shape)
    return Value(c.dtype, x.data[tuple(slice(a, a + n, s) for a, n, s in zip(at, span, stride))])


@instruction("update", "T T")
def update(c, x, y):
    at = c.integers("at")
    check_box(at, y.shape, x.shape)
    result = x.data.copy()
    result[tuple(slice(a, a + n) for a, n in zip(at, y.shape))] = y.data
    return Value(c.dtype, result)


@instruction("concat", "T*")
def concat(c, *xs):
    return Value(c.dtype, np.concatenate([x.data for x in xs], c.axis(0)))


@instruction("pad", "T")
def pad(c, x):
    low, high = c.integers("low"), c.integers("high")
    shape = [a + n + b for a, n, b in zip(low, x.shape, high)]
    result = np.full(shape, c.number("value", c.dtype, 0), x.data.dtype)
    result[tuple(slice(a, a + n) for a, n in zip(low, x.shape))] = x.data
    return Value(c.dtype, result)


def checked_indices(index, size):
    """The indices in row-major order; traps at the lowest position of one outside."""
    flat = index.data.ravel()
    outside = np.flatnonzero((flat < 0) | (flat >= size))
    if outside.size:
        raise Trap("index-out-of-range", int(outside[0]))
    return flat.astype(np.int64)


@instruction("gather", "T U")
def gather(c, x, index):
    axis = c.axis(0)
    picked = np.take(x.data, checked_indices(index, x.shape[axis]), axis)
    return Value(c.dtype, picked.reshape(x.shape[:axis] + index.shape + x.shape[axis + 1 :]))


def scattered(c, x, index, y, combine):
    """x with slices replaced by combine(old, new), by ascending position in index."""
    axis = c.axis(0)
    indices = checked_indices(index, x.shape[axis])
    result = np.moveaxis(x.data.copy(), axis, 0)
    slices = np.moveaxis(
        y.data.reshape(x.shape[:axis] + (len(indices),) + x.shape[axis + 1 :]), axis, 0
    )
    for position, target in enumerate(indices):
        result[target] = combine(result[target], slices[position])
    return Value(c.dtype, np.moveaxis(result, 0, axis))


@instruction("scatter", "T U T")
def scatter(c, x, index, y):
    return scattered(c, x, index, y, lambda old, new: new)


@instruction("scatter.add", "T U T")
def scatter_add(c, x, index, y):
    def add(old, new):
        if not is_real(c.dtype):
            return old + new
        return narrow(c.dtype, widen(Value(c.dtype, old)) + widen(Value(c.dtype, new)))

    return scattered(c, x, index, y, add)


@instruction("broadcast", "T")
def broadcast(c, x):
    return Value(c.dtype, np.broadcast_to(x.data, c.integers("shape")))


@instruction("where", "bool T T")
def where(c, condition, x, y):
    return c.result(np.where(condition.data, x.data, y.data))


@instruction("one_hot", "U")
def one_hot(c, index):
    depth, to = c.integer("depth"), c.attributes["to"]
    hot = checked_indices(index, depth)[:, None] == np.arange(depth)
    return Value(to, cast(Value("bool", hot.reshape(index.shape + (depth,))), to))


# ---- the memory and trap instructions of the control family --------------------------------------


@instruction("load", "T")
def load(c, x):
    at = c.integers("at")
    check_box(at, [1] * len(at), x.shape)
    to = scalar_type(c.dtype)
    return Value(to, cast(Value(c.dtype, x.data[tuple(at)]), to), scalar=True)


@instruction("store", "T any", inplace=(0,))
def store(c, x, value):
    at = c.integers("at")
    check_box(at, [1] * len(at), x.shape)
    result = x.data.copy()
    result[tuple(at)] = cast(value, c.dtype)
    return Value(c.dtype, result)


@instruction("assert_finite", "T")
def assert_finite(c, x):
    wrong = np.flatnonzero(~np.isfinite(widen(x)))
    if wrong.size:
        raise Trap("not-finite", int(wrong[0]))


@instruction("trap", "")
def trap(c):
    raise Trap("explicit")


@instruction("next", "T")
def next_(c, stream):
    """Of a stream that has ended; program.py feeds one that has blocks."""
    return zeros(c.dtype, stream.shape), Value("bool", False, scalar=True)
