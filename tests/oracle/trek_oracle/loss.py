"""softmax and cross-entropy."""

import numpy as np

from .elementary import exp, log
from .elements import Value, narrow, order_key, widen
from .instructions import Trap, instruction
from .orders import sum_in_order


def exponentials(c, x, axis):
    """With the axis first, in C: x - m, e = exp(x - m), and s, the sum of e."""
    data = np.moveaxis(widen(x), axis, 0)
    if data.shape[0] == 0:
        return data, data, np.zeros(data.shape[1:], data.dtype)
    # The maximum: NaN has the greatest key, and then +0 is above -0.
    keys = order_key(c.compute, data)
    m = np.take_along_axis(data, np.argmax(keys, axis=0)[None], axis=0)[0]
    shifted = data - m
    e = exp(shifted)
    return shifted, e, sum_in_order(e)


def back(c, data, axis):
    return Value(c.dtype, narrow(c.dtype, np.moveaxis(data, 0, axis)))


@instruction("softmax", "T")
def softmax(c, x):
    axis = c.axis(-1)
    _, e, s = exponentials(c, x, axis)
    return back(c, e / s, axis)


@instruction("log_softmax", "T")
def log_softmax(c, x):
    axis = c.axis(-1)
    shifted, _, s = exponentials(c, x, axis)
    return back(c, shifted - log(s), axis)


@instruction("softmax.grad", "T T")
def softmax_grad(c, dy, y):
    axis = c.axis(-1)
    g, p = (np.moveaxis(widen(v), axis, 0) for v in (dy, y))
    return back(c, p * (g - sum_in_order(g * p)), axis)


@instruction("log_softmax.grad", "T T")
def log_softmax_grad(c, dy, y):
    axis = c.axis(-1)
    g, p = (np.moveaxis(widen(v), axis, 0) for v in (dy, y))
    return back(c, g - exp(p) * sum_in_order(g), axis)


def classes(z, t):
    """The classes in row-major order; traps at the first outside."""
    flat = t.data.ravel()
    outside = np.flatnonzero((flat < 0) | (flat >= z.shape[-1]))
    if outside.size:
        raise Trap("index-out-of-range", int(outside[0]))
    return flat.astype(np.int64)


def rows_of(c, z):
    """The logits as [rows, classes] in the element type."""
    return Value(
        c.dtype, z.data.reshape(-1 if z.shape[-1] else int(np.prod(z.shape[:-1])), z.shape[-1])
    )


def loss_of(c, z, t):
    target = classes(z, t)
    shifted, _, s = exponentials(c, rows_of(c, z), 1)
    picked = shifted[target, np.arange(len(target))] if len(target) else shifted[:0].reshape(0)
    losses = log(s) - picked
    reduction = c.choice("reduction", "mean")
    if reduction == "none":
        return Value(c.compute, losses.reshape(t.shape))
    total = sum_in_order(losses)
    if reduction == "mean":
        total = total / total.dtype.type(len(target))
    return Value(c.compute, total)


def gradient_of(c, z, t):
    """g [rows, classes] in C."""
    target = classes(z, t)
    _, e, s = exponentials(c, rows_of(c, z), 1)
    p = np.moveaxis(e / s, 0, 1).copy()
    p[np.arange(len(target)), target] -= p.dtype.type(1)
    if c.choice("reduction", "mean") == "mean":
        p = p / p.dtype.type(len(target))
    return p


@instruction("cross_entropy", "T U")
def cross_entropy(c, z, t):
    return loss_of(c, z, t)


@instruction("cross_entropy.grad", "C T U")
def cross_entropy_grad(c, dl, z, t):
    g = gradient_of(c, z, t)
    return Value(c.dtype, narrow(c.dtype, dl.data.reshape(-1, 1) * g).reshape(z.shape))


@instruction("cross_entropy.with_grad", "T U")
def cross_entropy_with_grad(c, z, t):
    return loss_of(c, z, t), Value(c.dtype, narrow(c.dtype, gradient_of(c, z, t)).reshape(z.shape))
