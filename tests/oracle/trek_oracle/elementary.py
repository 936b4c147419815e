"""exp, log, pow, tanh, sigmoid, erf, mod and rounding, from isa/semantics/README.md.

Every function takes numpy arrays of f32 or f64 and gives the same type; each numpy operation on
them rounds once. The names and steps are those of "The definitions" there; a pair is a tuple
(hi, lo). sin and cos are in trigonometric.py.
"""

import numpy as np

from .fused import fma, two_sum


def pick(x, single, full):
    """The constant of x's type, out of f32 and f64 hexadecimal floats (or numbers)."""
    text = single if x.dtype == np.float32 else full
    return x.dtype.type(float.fromhex(text) if isinstance(text, str) else text)


def picks(x, single, full):
    return [
        x.dtype.type(float.fromhex(c)) for c in (single if x.dtype == np.float32 else full).split()
    ]


def mantissa_bits(x):
    return 23 if x.dtype == np.float32 else 52


def bits_of(x):
    return (
        np.ascontiguousarray(x)
        .view(np.uint32 if x.dtype == np.float32 else np.uint64)
        .reshape(np.shape(x))
    )


def from_bits(bits, like):
    return np.ascontiguousarray(bits).view(like.dtype).reshape(np.shape(bits))


def number(x, value):
    return x.dtype.type(value)


# ---- pairs and powers of two ---------------------------------------------------------------------


def horner(x, coefficients):
    value = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        value = fma(x, value, c)
    return value


def fast_two_sum(a, b):
    s = a + b
    return s, b - (s - a)


def two_product(a, b):
    q = a * b
    return q, fma(a, b, -q)


def multiply(a, b):
    q, low = two_product(a[0], b[0])
    return q, fma(a[0], b[1], fma(a[1], b[0], low))


def divide(n, d):
    inverse = number(d[0], 1) / d[0]
    q = n[0] * inverse
    r = fma(-q, d[0], n[0])
    return q, (r + fma(-q, d[1], n[1])) * inverse


def power_of_two(like, k):
    bias = 127 if like.dtype == np.float32 else 1023
    return np.ldexp(number(like, 1), np.clip(k, 1 - bias, bias).astype(np.int32))


def scale(x, k):
    half = k // 2
    return x * power_of_two(x, half) * power_of_two(x, k - half)


def integer(kf):
    return np.where(np.isfinite(kf), kf, 0).astype(np.int64)


# ---- rounding and order --------------------------------------------------------------------------


def round_even(x):
    big = number(x, 2 ** mantissa_bits(x))
    return np.where(np.abs(x) < big, np.copysign((np.abs(x) + big) - big, x), x)


def floor(x):
    n = round_even(x)
    return np.copysign(np.where(n > x, n - number(x, 1), n), x)


def ceil(x):
    n = round_even(x)
    return np.copysign(np.where(n < x, n + number(x, 1), n), x)


def maximum(a, b):
    equal = from_bits(bits_of(a) & bits_of(b), a)
    return np.where(
        np.isnan(a), a, np.where(np.isnan(b), b, np.where(a == b, equal, np.where(a > b, a, b)))
    )


def minimum(a, b):
    equal = from_bits(bits_of(a) | bits_of(b), a)
    return np.where(
        np.isnan(a), a, np.where(np.isnan(b), b, np.where(a == b, equal, np.where(a < b, a, b)))
    )


def sign(x):
    return np.where((x > 0) | (x < 0), np.copysign(number(x, 1), x), x)


# ---- exp -----------------------------------------------------------------------------------------

EXP_Q32 = "0x1p-1 0x1.555556p-3 0x1.5554aep-5 0x1.111046p-7 0x1.6d9658p-10 0x1.a1b7f6p-13"
EXP_Q64 = """0x1p-1 0x1.5555555555555p-3 0x1.555555555555cp-5 0x1.1111111111149p-7
    0x1.6c16c16c13edfp-10 0x1.a01a01a01713bp-13 0x1.a01a01b17525ap-16 0x1.71de3a640390dp-19
    0x1.27e4c512bb6ebp-22 0x1.ae6409f3e5baep-26 0x1.1f952f48a5e5p-29 0x1.61ef960d2ebf1p-33"""


def clamp_above(x, most):
    return np.where(x > most, most, x)


def clamp_below(x, least):
    return np.where(x < least, least, x)


def exp_least(x):
    return pick(x, -130, -800)


def exp_reduced(x, lo):
    """k as a number, and what x + lo leaves over k ln 2, in two parts."""
    shift = pick(x, "0x1.8p23", "0x1.8p52")
    kf = fma(x, pick(x, "0x1.715476p+0", "0x1.71547652b82fep+0"), shift) - shift
    return (
        kf,
        fma(-kf, pick(x, "0x1.62e43p-1", "0x1.62e42fefa39efp-1"), x),
        fma(-kf, pick(x, "-0x1.05c61p-29", "0x1.abc9e3b39803fp-56"), lo),
    )


def exp_q(r):
    return horner(r, picks(r, EXP_Q32, EXP_Q64))


def exp_parts(hi, lo):
    """k, r, tail with e^(hi + lo) = 2^k (1 + r + tail)."""
    x = clamp_below(clamp_above(hi, pick(hi, 100, 720)), exp_least(hi))
    kf, first, second = exp_reduced(x, lo)
    r, low = two_sum(first, second)
    return integer(kf), r, fma(r * r, exp_q(r), fma(low, r, low))


def exp_pair(r, tail):
    h, low = fast_two_sum(number(r, 1), r)
    return fast_two_sum(h, low + tail)


def exp_sum(r, tail):
    h, low = fast_two_sum(number(r, 1), r)
    return h + (low + tail)


def exp(x):
    k, r, tail = exp_parts(x, number(x, 0))
    return scale(exp_sum(r, tail), k)


def expm1_negative(x):
    k, r, tail = exp_parts(clamp_below(x, pick(x, -30, -60)), number(x, 0))
    p = exp_pair(r, tail)
    power = power_of_two(x, k)
    h, low = two_sum(number(x, -1), power * p[0])
    near, far = fast_two_sum(r, tail), fast_two_sum(h, low + power * p[1])
    return np.where(k == 0, near[0], far[0]), np.where(k == 0, near[1], far[1])


# ---- log -----------------------------------------------------------------------------------------

LOG_R32 = "0x1.999998p-2 0x1.249362p-2 0x1.c66964p-3 0x1.8dc344p-3"
LOG_R64 = """0x1.999999999999ap-2 0x1.2492492492479p-2 0x1.c71c71c71f27dp-3 0x1.745d1743511b9p-3
    0x1.3b13b27c51af4p-3 0x1.1110b142dd74fp-3 0x1.e204d083f4825p-4 0x1.ab587b45736a6p-4
    0x1.c0328f1e0d7f1p-4"""


def log_constants(x):
    """LN2H (short), LN2L, THIRDS, THIRDSL."""
    return (
        pick(x, "0x1.62e4p-1", "0x1.62e42fefa38p-1"),
        pick(x, "0x1.7f7d1cp-20", "0x1.ef35793c7673p-45"),
        pick(x, "0x1.555556p-1", "0x1.5555555555555p-1"),
        pick(x, "-0x1.555556p-26", "0x1.5555555555555p-55"),
    )


def log_reduce(x):
    """f and k of x = 2^k (1 + f); anything where x is not positive and finite."""
    p = mantissa_bits(x)
    lift = pick(x, 24, 54)
    tiny = x < pick(x, "0x1p-126", "0x1p-1022")
    v = np.where(tiny, x * np.ldexp(number(x, 1), int(lift)), x)
    start = int(bits_of(pick(x, "0x1.6a09e6p-1", "0x1.6a09e667f3bcdp-1")))
    distance = bits_of(v).astype(np.int64) - start
    k = (distance >> p) - np.where(tiny, int(lift), 0)
    m = (distance & (2**p - 1)) + start
    return from_bits(m.astype(bits_of(v).dtype), x) - number(x, 1), k.astype(x.dtype)


def log_quotient(f):
    h, low = fast_two_sum(number(f[0], 2), f[0])
    return divide(f, (h, low + f[1]))


def log_sum(k, f):
    ln2_high, ln2_low, thirds, _ = log_constants(f[0])
    s = log_quotient(f)
    z = s[0] * s[0]
    c = fma(z, horner(z, picks(z, LOG_R32, LOG_R64)), thirds)
    t = fma(s[0] * z, c, number(z, 2) * s[1])
    h, low = two_sum(k * ln2_high, number(z, 2) * s[0])
    return h, low + fma(k, ln2_low, t)


def log(x):
    f, k = log_reduce(x)
    h, low = log_sum(k, (f, np.zeros_like(f)))
    result = np.where(x < np.inf, h + low, x)
    return np.where(x == 0, number(x, -np.inf), np.where(x < 0, number(x, np.nan), result))


def log1p_unit(e):
    """log(1 + e) as a pair, 0 <= e <= 1."""
    h, low = fast_two_sum(number(e, 1), e)
    f, k = log_reduce(h)
    low = np.where(k == 0, low, low / number(e, 2))
    total = log_sum(k, two_sum(f, low))
    small = e < pick(e, "0x1p-25", "0x1p-54")
    return np.where(small, e, total[0]), np.where(small, number(e, 0), total[1])


def log_pair(x):
    ln2_high, ln2_low, thirds, thirds_low = log_constants(x)
    two = number(x, 2)
    f, k = log_reduce(x)
    s = fast_two_sum(*log_quotient((f, np.zeros_like(f))))
    z = multiply(s, s)
    c = multiply(s, z)
    t = multiply(c, (thirds, thirds_low))
    rest = c[0] * z[0] * horner(z[0], picks(x, LOG_R32, LOG_R64))
    a = two_sum(k * ln2_high, two * s[0])
    b = two_sum(t[0], fma(two, s[1], t[1] + rest))
    c = two_sum(a[0], b[0])
    d = two_sum(k * ln2_low, a[1])
    e = two_sum(d[0], c[1])
    low = (e[1] + d[1]) + b[1]
    h, rest = fast_two_sum(c[0], e[0])
    return fast_two_sum(h, rest + low)


# ---- pow, rsqrt, mod -----------------------------------------------------------------------------


def rsqrt(x):
    return number(x, 1) / np.sqrt(x)


def pow_(x, y):
    x, y = np.broadcast_arrays(x, y)
    a = np.abs(x)
    hi, lo = log_pair(a)
    hi = np.where(a == 0, number(x, -np.inf), np.where(a < np.inf, hi, a))
    lo = np.where((a == 0) | ~(a < np.inf), number(x, 0), lo)
    h, low = two_product(y, hi)
    w = np.where(np.abs(h) < pick(x, 1024, 8192), fma(y, lo, low), number(x, 0))
    k, r, tail = exp_parts(h, w)
    v = scale(exp_sum(r, tail), k)
    v = np.where((a == 1) & ~np.isnan(y), number(x, 1), v)
    whole = round_even(y) == y
    half = y / number(x, 2)
    odd = whole & (round_even(half) != half)
    v = np.where(np.signbit(x) & odd, -v, v)
    v = np.where((x > -np.inf) & (x < 0) & ~whole, number(x, np.nan), v)
    return np.where((x == 1) | (y == 0), number(x, 1), v)


def mod(x, y):
    r = np.fmod(x, y)  # exact
    moved = np.where((r < 0) != (y < 0), r + y, r)
    return np.where(r == 0, np.copysign(number(y, 0), y), moved)


# ---- tanh, sigmoid, erf --------------------------------------------------------------------------

ERF_S32 = """0x1.06eba8p-3 -0x1.812746p-2 0x1.ce2e94p-4 -0x1.b81a7p-6 0x1.5542aap-8 -0x1.aec89cp-11
    0x1.6cdc88p-14"""
ERF_S64 = """0x1.06eba8214db69p-3 -0x1.812746b0379e7p-2 0x1.ce2f21a042be2p-4 -0x1.b82ce31288b39p-6
    0x1.565bcd0e69ed3p-8 -0x1.c02db4001f063p-11 0x1.f9a326f28ee19p-14 -0x1.f4d25b35426cfp-17
    0x1.b9e6af2eefdacp-20 -0x1.5f724918170fbp-23 0x1.fc94cf39a62dep-27 -0x1.5028500c819f6p-30
    0x1.8aad35469c12cp-34 -0x1.4b94848f0fb09p-38"""
ERFC_P32 = """0x1.058672p+0 -0x1.5fd38ep-1 0x1.1e2dc6p-2 -0x1.2a7bb2p-5 -0x1.604d5ep-6 0x1.a5bcf8p-8
    0x1.8ed752p-9 -0x1.7cd26ap-11 -0x1.156d4ep-11 -0x1.88991cp-15"""
ERFC_P64 = """0x1.12f21ddd9f5e2p+0 -0x1.c44c471baa376p-1 0x1.2e326945de2b4p-1 -0x1.3deb21415dd28p-2
    0x1.e995f11b1744ep-4 -0x1.b78993d6a2c99p-6 -0x1.3dd3e71221e2ep-10 0x1.8dae3a1f6779cp-9
    -0x1.1f78e10e18debp-11 -0x1.2238fbc686ae9p-12 0x1.c3252705ad4d6p-14 0x1.fdfecb3652d6ap-16
    -0x1.2519814b6286ap-16 -0x1.3eb2561dfb3fp-18 0x1.72feef4b96cfcp-19 0x1.0bf182fe397d6p-20
    -0x1.b3d688e27923bp-22 -0x1.f291772bc467fp-23 0x1.7b22d6764e9d3p-25 0x1.a3f8fb2eaf149p-25
    -0x1.cbb5e15089df4p-33 -0x1.e57cfc4cde536p-28 -0x1.ce80480671e92p-31 0x1.6aef630474009p-32"""


def tanh(x):
    m = expm1_negative(number(x, -2) * np.abs(x))
    h, low = fast_two_sum(number(x, 2), m[0])
    q, c = divide((-m[0], -m[1]), (h, low + m[1]))
    return np.copysign(q + c, x)


def sigmoid_parts(hi, lo):
    """k, P, D with e^(hi + lo) = 2^k P and D = 1 + 2^k P, for hi <= 0."""
    k, r, tail = exp_parts(hi, lo)
    p = exp_pair(r, tail)
    h, low = fast_two_sum(number(hi, 1), scale(p[0], k))
    return k, p, (h, low + scale(p[1], k))


def sigmoid(x):
    k, p, d = sigmoid_parts(-np.abs(x), number(x, 0))
    q, c = divide(p, d)
    b = scale(q + c, k)
    return np.where(x < 0, b, number(x, 1) - b)


def shifted(z, center):
    """i, e, t with 1 / (z + K) = i (1 + e) and t = 1 - 2K / (z + K)."""
    one, minus_twice = number(z, 1), number(z, -2) * center
    d = two_sum(z, center)
    i = one / d[0]
    e = fma(-i, d[1], fma(-i, d[0], one))
    return i, e, fma(minus_twice * i, e, fma(minus_twice, i, one))


def scaled_erfc(z):
    """e^(z^2) erfc(z) as a pair, z >= 0."""
    i, e, t = shifted(z, pick(z, 2, 3))
    q, low = two_product(horner(t, picks(t, ERFC_P32, ERFC_P64)), i)
    return q, fma(q, e, low)


NORMAL_N32 = """0x1.7d241ap-1 -0x1.21914ep-1 0x1.42fecap-2 -0x1.db5a78p-4 0x1.1d3018p-6 0x1.a9862cp-8
    -0x1.a04262p-9 -0x1.03788ap-11 0x1.bb29aep-12 0x1.d1f5aep-14"""
NORMAL_N64 = """0x1.7d241a953a614p-1 -0x1.2191517fa27b8p-1 0x1.42fec3680acabp-2 -0x1.db5837f7f553cp-4
    0x1.1d35bdee16cbbp-6 0x1.a86cec766c74fp-8 -0x1.a200796a89733p-9 -0x1.d2a14111182dep-12
    0x1.f3cfaae396474p-12 0x1.1928624f90e63p-14 -0x1.3d066dc079029p-14 -0x1.3b39af8e590ffp-16
    0x1.8219902f26408p-17 0x1.7b4af9865aa55p-18 -0x1.38bf8f7da0dd9p-20 -0x1.8d0ecf90c8f0fp-20
    -0x1.337e78a7b7396p-23 0x1.3c1d38af79e87p-22 0x1.0a2bd8fb182d8p-23 -0x1.02bb53d3cb1f6p-25
    -0x1.38844080e603ep-25 -0x1.096bab35b003ap-28 0x1.52808b84113f5p-28 0x1.9a66e36f60fc9p-30"""


def normal_tail(y):
    """k, q, g, e with 1 - Phi(y) = 2^k q (1 + g) and e^(-y^2/2) = 2^k e, for y >= 0."""
    one = number(y, 1)
    kf, first, second = exp_reduced(*two_product(number(y, -0.5) * y, y))
    r = first + second
    m = fma(r, exp_q(r), one)
    i, c, t = shifted(y, number(y, 3.5))
    q = horner(t, picks(t, NORMAL_N32, NORMAL_N64)) * i
    return integer(kf), q, fma(r, m, c), fma(r, m, one)


def erf(x):
    a = np.abs(x)
    near = fma(a, horner(x * x, picks(x, ERF_S32, ERF_S64)), a)
    z = clamp_above(a, pick(x, 4, 6))
    h, low = two_product(z, z)
    k, r, tail = exp_parts(-h, -low)
    t = multiply(exp_pair(r, tail), scaled_erfc(z))
    far = number(x, 1) - scale(t[0] + t[1], k)
    return np.copysign(np.where(a < 0.875, near, far), x)
