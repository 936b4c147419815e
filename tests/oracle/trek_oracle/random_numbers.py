"""Philox4x32-10 and what is drawn from its words.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

import numpy as np

from .elementary import log
from .elements import Value, cast, narrow, widen
from .fused import fma
from .instructions import Trap, instruction
from .trigonometric import cos, sin

MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (0x9E3779B9, 0xBB67AE85)
LOW32 = np.uint64(0xFFFFFFFF)


def philox(counters, key):
    """Four words of 32 bits (as u64) for each counter (four arrays of words), key two words."""
    x0, x1, x2, x3 = counters
    k0, k1 = key
    for _ in range(10):
        p0, p1 = MULTIPLIERS[0] * x0, MULTIPLIERS[1] * x2
        x0, x1, x2, x3 = (
            (p1 >> np.uint64(32)) ^ x1 ^ np.uint64(k0),
            p1 & LOW32,
            (p0 >> np.uint64(32)) ^ x3 ^ np.uint64(k1),
            p0 & LOW32,
        )
        k0, k1 = (k0 + WEYL[0]) % 2**32, (k1 + WEYL[1]) % 2**32
    return x0, x1, x2, x3


def random_words(c, n):
    """The words of elements 0 to n - 1, rounded up to whole counters: u64 [ceil(n/4), 4]."""
    key = c.integer("key") % 2**64
    key ^= c.seed * 0x9E3779B97F4A7C15 % 2**64
    offset = c.integer("offset", 0) % 2**64
    low = np.arange(-(-n // 4), dtype=np.uint64) + np.uint64(offset)  # modulo 2^64
    zero = np.zeros_like(low)
    lanes = philox((low & LOW32, low >> np.uint64(32), zero, zero), (key % 2**32, key >> 32))
    return np.stack(lanes, axis=1)


def shape_of(c):
    shape = c.integers("shape")
    return shape, int(np.prod(shape, dtype=np.int64))


def fractions(words, compute):
    """Words to [0, 1): 24 bits in f32, 32 bits in f64."""
    if compute == "f64":
        return words.astype(np.float64) * np.float64(2.0**-32)
    return (words >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


@instruction("uniform", "")
def uniform(c):
    shape, n = shape_of(c)
    low, high = c.real("low", 0), c.real("high", 1)
    u = fractions(random_words(c, n).ravel()[:n], c.compute)
    return Value(c.dtype, narrow(c.dtype, fma(u, high - low, low)).reshape(shape))


@instruction("normal", "")
def normal(c):
    shape, n = shape_of(c)
    words = random_words(c, n)
    first, second = words[:, 0::2], words[:, 1::2]  # pairs: lanes 0 and 1, lanes 2 and 3
    one = np.uint64(1)
    if c.compute == "f64":
        u = (first + one).astype(np.float64) * np.float64(2.0**-32)
        turn = np.float64(2 * np.pi)
    else:
        u = ((first >> np.uint64(8)) + one).astype(np.float32) * np.float32(2.0**-24)
        turn = np.float32(2 * np.pi)
    q = np.sqrt(u.dtype.type(-2) * log(u))
    t = turn * fractions(second, c.compute)
    z = np.stack([q * cos(t), q * sin(t)], axis=2).ravel()[:n]
    return Value(
        c.dtype, narrow(c.dtype, fma(c.real("std", 1), z, c.real("mean", 0))).reshape(shape)
    )


def below(c, n, p):
    """Whether each element's number in f32 is below p."""
    return fractions(random_words(c, n).ravel()[:n], "f32") < np.float32(p)


@instruction("bernoulli", "")
def bernoulli(c):
    shape, n = shape_of(c)
    return Value("bool", below(c, n, c.number("p", "f32")).reshape(shape))


@instruction("permutation", "")
def permutation(c):
    n, to = c.integer("n"), c.attributes.get("to", "i64")
    order = np.argsort(random_words(c, n).ravel()[:n], kind="stable")
    return Value(to, cast(Value("i64", order), to))


def kept_factor(c):
    p = c.real("p")
    if not 0 <= p < 1:
        raise Trap("invalid-argument")
    return p, p.dtype.type(1) / (p.dtype.type(1) - p)


def scaled_where(c, x, kept, factor):
    wide = widen(x)
    return Value(c.dtype, narrow(c.dtype, np.where(kept, wide * factor, wide.dtype.type(0))))


@instruction("dropout", "T")
def dropout(c, x):
    p, factor = kept_factor(c)
    kept = ~below(c, x.data.size, p).reshape(x.shape)
    return scaled_where(c, x, kept, factor), Value("bool", kept)


@instruction("dropout.grad", "T bool")
def dropout_grad(c, dy, kept):
    _, factor = kept_factor(c)
    return scaled_where(c, dy, kept.data, factor)
