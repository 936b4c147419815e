"""sin and cos, from isa/semantics/README.md.

As in elementary.py: arrays of f32 or f64, each numpy operation rounds once. Large arguments are
reduced in Python's integers, with 2/pi worked out here.
"""

from functools import lru_cache

import numpy as np

from .elementary import fast_two_sum, horner, integer, mantissa_bits, multiply, number, pick, picks
from .elementary import two_product
from .fused import fma, two_sum

SIN_S32 = "-0x1.555556p-3 0x1.11111ep-7 -0x1.a00f66p-13 0x1.6cd83ap-19"
SIN_S64 = """-0x1.5555555555555p-3 0x1.1111111111101p-7 -0x1.a01a01a018af3p-13 0x1.71de3a5339755p-19
    -0x1.ae6452984a017p-26 0x1.612092b6eb9b6p-33 -0x1.aaa546f2e3e0cp-41"""
COS_C32 = "0x1.555556p-5 -0x1.6c16ep-10 0x1.a0112ap-16 -0x1.244c1p-22"
COS_C64 = """0x1.5555555555555p-5 -0x1.6c16c16c16c01p-10 0x1.a01a01a01956fp-16
    -0x1.27e4fb766c749p-22 0x1.1eed8d135feap-29 -0x1.9393ab19f7decp-37 0x1.aaf51d7d3885p-45"""
PI_BITS = 1300


@lru_cache(None)
def two_over_pi():
    """floor(2/pi * 2^PI_BITS), pi by Machin's formula."""
    guard = 64
    one = 1 << (PI_BITS + guard)

    def arctan_inverse(n):
        total, term, k = 0, one // n, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term //= n * n
            k += 2
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    return (2 * one << PI_BITS) // pi


def reduce_large(x, p):
    """n, A, B and the exponent z of |x| >= 2^17, with the sign that (h, l) takes."""
    numerator, denominator = abs(x).as_integer_ratio()
    exponent = numerator.bit_length() - denominator.bit_length() - p
    m = numerator >> exponent if exponent >= 0 else (numerator << -exponent) // denominator
    # W: the 192 bits of 2/pi with weights 2^-(E-1) down to 2^-(E+190).
    drop = PI_BITS - (exponent + 190)
    w = (two_over_pi() >> drop) & (2**192 - 1)
    # The products of m with three words of 64 bits, the lowest 64 bits dropped.
    v = (m * w % 2**192) >> 64
    n = (v + 2**125) >> 126
    g = 4 * v % 2**128
    negative = g >= 2**127
    g = 2**128 - g if negative else g
    z = 128 - g.bit_length()
    g <<= z
    high = g >> (128 - (p + 1))
    low = (g >> (128 - 2 * (p + 1))) & (2 ** (p + 1) - 1)
    if x < 0:
        n = -n
    return n % 4, float(high), float(low), z, negative != (x < 0)


def quarter_turns(x):
    """n and the pair (h, l) of x = n pi/2 + h + l."""
    p = mantissa_bits(x)
    p1, p2 = pick(x, "0x1.921fb6p+0", "0x1.921fb54442d18p+0"), pick(
        x, "-0x1.777a5cp-25", "0x1.1a62633145c07p-54"
    )
    p3 = pick(x, "-0x1.ee59dap-50", "-0x1.f1976b7ed8fbcp-110")
    small = np.abs(x) < 2**17
    v = np.where(small, x, number(x, 0))
    shift = pick(x, "0x1.8p23", "0x1.8p52")
    nf = fma(v, pick(x, "0x1.45f306p-1", "0x1.45f306dc9c883p-1"), shift) - shift
    f = fma(-nf, p1, v)
    a, b = two_product(nf, p2)
    h, low = two_sum(f, -a)
    low = low - (b + nf * p3)
    n = integer(nf) % 4

    large = np.flatnonzero(~small & np.isfinite(x))
    if large.size:
        n, h, low = (np.array(part).ravel() for part in (n, h, low))
        parts = [reduce_large(value, p) for value in np.ravel(x)[large].astype(np.float64).tolist()]
        turns, high, rest, z, flip = (np.array(part) for part in zip(*parts))
        unit = np.ldexp(number(x, 1), -(z + p + 1).astype(np.int32))
        high, rest = high.astype(x.dtype) * unit, rest.astype(x.dtype) * unit * np.ldexp(
            number(x, 1), -(p + 1)
        )
        high, rest = multiply((high, rest), (p1, p2))
        n[large], h[large], low[large] = (
            turns,
            np.where(flip, -high, high),
            np.where(flip, -rest, rest),
        )
        n, h, low = (part.reshape(np.shape(x)) for part in (n, h, low))
    h = np.where(np.isfinite(x), h, number(x, np.nan))
    return n, h, low


def sine_of_turns(n, h, low):
    z = h * h
    half = number(h, 0.5)
    even = h + fma(h * z, horner(z, picks(h, SIN_S32, SIN_S64)), fma(-half * z, low, low))
    a, b = fast_two_sum(number(h, 1), -(half * z))
    odd = a + (b + fma(z * z, horner(z, picks(h, COS_C32, COS_C64)), -(h * low)))
    v = np.where(n & 1, odd, even)
    return np.where(n & 2, -v, v)


def sin(x):
    return np.where(x == 0, x, sine_of_turns(*quarter_turns(x)))


def cos(x):
    n, h, low = quarter_turns(x)
    return sine_of_turns(n + 1, h, low)
