"""Optimizer steps and the global-norm clip."""

import numpy as np

from .elementary import pow_
from .elements import Value, narrow, widen
from .fused import fma
from .instructions import Trap, instruction
from .orders import left_fold, sum_in_order


def with_decay(c, w, g):
    """g with the L2 term, both in C."""
    decay = c.real("weight_decay", 0)
    return g if decay == 0 else fma(decay, w, g)


def stored(c, w):
    return Value(c.dtype, narrow(c.dtype, w))


@instruction("sgd", "T T", inplace=(0,))
def sgd(c, w, g):
    w, g = widen(w), widen(g)
    return stored(c, fma(-c.real("lr"), with_decay(c, w, g), w))


@instruction("sgd.momentum", "T C T", inplace=(0, 1))
def sgd_momentum(c, w, v, g):
    w, v, g = widen(w), v.data, widen(g)
    momentum = c.real("momentum", 0.9)
    g = with_decay(c, w, g)
    v = fma(momentum, v, g)
    d = fma(momentum, v, g) if c.flag("nesterov") else v
    return stored(c, fma(-c.real("lr"), d, w)), Value(c.compute, v)


def adam_step(c, w, m, v, g):
    """Of arrays in C; the results are w, m, v."""
    step = c.integer("step")
    one = w.dtype.type(1)
    beta1, beta2, eps = c.real("beta1", 0.9), c.real("beta2", 0.999), c.real("eps", 1e-8)
    m = fma(beta1, m, (one - beta1) * g)
    v = fma(beta2, v, ((one - beta2) * g) * g)
    c1, c2 = (
        w.dtype.type(1 - pow_(np.array([beta], np.float64), np.array([step], np.float64))[0])
        for beta in (beta1, beta2)
    )
    d = (m / c1) / (np.sqrt(v / c2) + eps)
    return fma(-c.real("lr"), d, w), m, v


def check_step(c):
    if c.integer("step") < 1:
        raise Trap("invalid-argument")


@instruction("adam", "T C C T", inplace=(0, 1, 2))
def adam(c, w, m, v, g):
    check_step(c)
    w, g = widen(w), widen(g)
    w, m, v = adam_step(c, w, m.data, v.data, with_decay(c, w, g))
    return stored(c, w), Value(c.compute, m), Value(c.compute, v)


@instruction("adamw", "T C C T", inplace=(0, 1, 2))
def adamw(c, w, m, v, g):
    check_step(c)
    w, g = widen(w), widen(g)
    decay = c.real("weight_decay", 0.01)
    if decay != 0:
        w = fma(-(c.real("lr") * decay), w, w)
    w, m, v = adam_step(c, w, m.data, v.data, g)
    return stored(c, w), Value(c.compute, m), Value(c.compute, v)


@instruction("rmsprop", "T C T", inplace=(0, 1))
def rmsprop(c, w, v, g):
    w, v, g = widen(w), v.data, widen(g)
    decay, eps = c.real("decay", 0.99), c.real("eps", 1e-8)
    g = with_decay(c, w, g)
    v = fma(decay, v, ((w.dtype.type(1) - decay) * g) * g)
    return stored(c, fma(-c.real("lr"), g / (np.sqrt(v) + eps), w)), Value(c.compute, v)


@instruction("clip_norm", "T*")
def clip_norm(c, *gradients):
    wide = [widen(g) for g in gradients]
    norm = np.sqrt(left_fold([sum_in_order((g * g).ravel()) for g in wide]))
    most = c.real("max")
    factor = most / norm if norm > most else norm.dtype.type(1)
    return (Value(c.compute, norm), *(stored(c, g * factor) for g in wide))
