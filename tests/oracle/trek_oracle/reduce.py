"""Reductions, running sums, order."""

import numpy as np

from .elements import Value, cast, is_real, narrow, order_key, widen, is_nan
from .instructions import instruction
from .orders import reduce_in_order, sum_in_order


def reduced_axes(c, rank):
    axes = c.integers("axis")
    return list(range(rank)) if axes is None else sorted(a % rank for a in axes)


def reduced_first(c, x, data):
    """Data with the reduced axes made one axis 0 in row-major order, and the result's shape."""
    axes = reduced_axes(c, len(x.shape))
    kept = [a for a in range(len(x.shape)) if a not in axes]
    n = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    shape = [
        1 if a in axes else x.shape[a]
        for a in range(len(x.shape))
        if a not in axes or c.flag("keep")
    ]
    return data.transpose(axes + kept).reshape([n] + [x.shape[a] for a in kept]), shape


def wrap_sum(x):
    return np.add.reduce(x, axis=0, dtype=x.dtype)


@instruction("sum", "T")
def sum_(c, x):
    data, shape = reduced_first(c, x, widen(x))
    total = sum_in_order(data) if is_real(c.dtype) else wrap_sum(data)
    return Value(c.dtype, narrow(c.dtype, total).reshape(shape))


@instruction("mean", "T")
def mean(c, x):
    data, shape = reduced_first(c, x, widen(x))
    total = sum_in_order(data) / data.dtype.type(data.shape[0])
    return Value(c.dtype, narrow(c.dtype, total).reshape(shape))


@instruction("prod", "T")
def prod(c, x):
    data, shape = reduced_first(c, x, widen(x))
    if data.shape[0] == 0:
        product = np.ones(data.shape[1:], data.dtype)
    elif is_real(c.dtype):
        product = reduce_in_order(data, lambda a, b: a * b)
    else:
        product = np.multiply.reduce(data, axis=0, dtype=data.dtype)
    return Value(c.dtype, narrow(c.dtype, product).reshape(shape))


@instruction("norm2", "T")
def norm2(c, x):
    data, shape = reduced_first(c, x, widen(x))
    return Value(c.dtype, narrow(c.dtype, np.sqrt(sum_in_order(data * data))).reshape(shape))


def best_first(c, x, greatest):
    """For each result, the first position of the greatest or least element; NaN wins."""
    keys, shape = reduced_first(c, x, order_key(c.dtype, x.data))
    nans, _ = reduced_first(c, x, is_nan(c.dtype, x.data))
    if greatest:
        position = np.argmax(keys, axis=0)  # the first of equals; NaN has the greatest key
    else:
        position = np.where(nans.any(axis=0), np.argmax(nans, axis=0), np.argmin(keys, axis=0))
    return position, shape


def extreme(c, x, greatest):
    position, shape = best_first(c, x, greatest)
    data, _ = reduced_first(c, x, x.data)
    return Value(c.dtype, np.take_along_axis(data, position[None], axis=0)[0].reshape(shape))


def extreme_position(c, x, greatest):
    position, shape = best_first(c, x, greatest)
    return as_index(c, position.reshape(shape))


def as_index(c, positions):
    to = c.attributes.get("to", "i64")
    return Value(to, cast(Value("i64", positions), to))


def nothing(c, x):
    """Whether the result has no elements (then the reduced axes may be empty)."""
    return reduced_first(c, x, x.data)[0][:1].size == 0


def register_extremes():
    for name, greatest in (("max", True), ("min", False)):

        def value(c, x, greatest=greatest):
            if nothing(c, x):
                return Value(c.dtype, np.zeros(reduced_first(c, x, x.data)[1], x.data.dtype))
            return extreme(c, x, greatest)

        def position(c, x, greatest=greatest):
            if nothing(c, x):
                return as_index(c, np.zeros(reduced_first(c, x, x.data)[1], np.int64))
            return extreme_position(c, x, greatest)

        instruction(name, "T")(value)
        instruction("arg" + name, "T")(position)


register_extremes()


@instruction("cumsum", "T")
def cumsum(c, x):
    axis = c.axis(-1)
    data = np.moveaxis(widen(x), axis, 0)
    if not is_real(c.dtype):
        result = np.add.accumulate(data, axis=0, dtype=data.dtype)
        return Value(c.dtype, np.moveaxis(result, 0, axis))
    result = np.empty_like(data)
    offset = None
    for first in range(0, data.shape[0], 32):
        running = None
        for i in range(first, min(first + 32, data.shape[0])):
            running = data[i] if running is None else running + data[i]
            result[i] = running if offset is None else offset + running
        offset = running if offset is None else offset + running
    return Value(c.dtype, np.moveaxis(narrow(c.dtype, result), 0, axis))


def sorting_indices(c, x, axis, descending):
    keys = order_key(c.dtype, x.data)
    return np.argsort(~keys if descending else keys, axis=axis, kind="stable")


@instruction("sort", "T")
def sort(c, x):
    axis = c.axis(-1)
    return Value(
        c.dtype, np.take_along_axis(x.data, sorting_indices(c, x, axis, c.flag("descending")), axis)
    )


@instruction("argsort", "T")
def argsort(c, x):
    return as_index(c, sorting_indices(c, x, c.axis(-1), c.flag("descending")))


@instruction("top_k", "T")
def top_k(c, x):
    axis = c.axis(-1)
    order = sorting_indices(c, x, axis, not c.flag("smallest"))
    order = np.take(order, np.arange(c.integer("k")), axis)
    return Value(c.dtype, np.take_along_axis(x.data, order, axis)), as_index(c, order)
