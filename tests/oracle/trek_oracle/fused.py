"""fma: x * y + z rounded once, which numpy lacks.

f32: the product of two f32 numbers is exact in f64. Its sum with the third is rounded to odd in
f64: 53 bits whose last one says whether anything was dropped. Rounding that to f32 is then as good
as rounding the exact sum.

f64: the algorithm of Boldo and Melquiond ("Emulation of FMA and correctly rounded sums: proved
algorithms using rounding to odd", 2008) wherever nothing can overflow or underflow on the way,
exact integers for the few elements that remain.
"""

import numpy as np

SPLIT = np.float64(2**27 + 1)  # Veltkamp: halves of 26 bits
ORDINARY = 900  # products of exponents within this are exact as a pair
TINY = np.float64(2.0**-450)


def fma(x, y, z):
    """x * y + z of arrays of one type (f32 or f64), broadcast, rounded once."""
    x, y, z = np.asarray(x), np.asarray(y), np.asarray(z)
    if x.dtype == np.float32:
        return odd_sum(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)).astype(
            np.float32
        )
    return fma64(*np.broadcast_arrays(x, y, z))


def two_sum(a, b):
    """The rounded sum and its error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def odd_sum(a, b):
    """a + b in f64, rounded to odd: where it is not exact, to the neighbour whose last bit is 1."""
    total, error = two_sum(a, b)
    bits = total.view(np.int64)
    inexact_even = ((error > 0) | (error < 0)) & ((bits & 1) == 0)
    away_from_zero = (error > 0) == (total > 0)
    return (bits + np.where(inexact_even, np.where(away_from_zero, 1, -1), 0)).view(np.float64)


def halves(a):
    big = SPLIT * a
    high = big - (big - a)
    return high, a - high


def two_product(a, b):
    """The rounded product and its error, for moderate exponents."""
    product = a * b
    (ah, al), (bh, bl) = halves(a), halves(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def fma64(x, y, z):
    xm, xe = np.frexp(x)
    ym, ye = np.frexp(y)
    exponent = xe + ye
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    product_is_zero = (x == 0) | (y == 0)
    # A product so far below z that only its sign matters stands for any such product.
    negligible = (exponent < -ORDINARY) & (np.abs(z) > 2.0**-700) & ~product_is_zero
    moderate = (np.abs(exponent) <= ORDINARY) | negligible
    a = np.where(negligible, np.copysign(TINY, xm), xm)
    b = np.where(
        negligible, np.copysign(TINY, ym), np.ldexp(ym, np.clip(exponent, -ORDINARY, ORDINARY))
    )
    high, low = two_product(a, b)
    th, tl = two_sum(z, low)
    vh, vl = two_sum(high, th)
    result = np.asarray(vh + odd_sum(tl, vl))
    # With a zero product or something not finite, the separate operations are right, but for a
    # product that overflows beside an infinite z.
    plain = np.where(np.isfinite(x) & np.isfinite(y) & np.isinf(z), z, x * y + z)
    result = np.where(~finite | product_is_zero, plain, result)
    rest = finite & ~product_is_zero & ~(moderate & (np.abs(z) < 2.0**1000))
    if rest.any():
        result = np.array(result)
        result[rest] = [
            exact_fma(*t) for t in zip(x[rest].tolist(), y[rest].tolist(), z[rest].tolist())
        ]
    return result


def exact_fma(x, y, z):
    """x * y + z of Python floats through integers; x * y is not zero."""
    (xn, xd), (yn, yd), (zn, zd) = (v.as_integer_ratio() for v in (x, y, z))
    # Denominators are powers of two.
    xs, ys, zs = (d.bit_length() - 1 for d in (xd, yd, zd))
    shift = max(xs + ys, zs)
    number = (xn * yn << (shift - xs - ys)) + (zn << (shift - zs))
    if number == 0:
        return 0.0  # x * y = -z exactly
    try:
        return number / (1 << shift)  # of Python's integers: correctly rounded
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
