"""Activations and gradients of unary functions, from isa/semantics/README.md.

As in elementary.py: arrays of f32 or f64, each numpy operation rounds once. A gradient takes dy and
the operand or the result of the forward function, whichever the row of ops.def names.
"""

import numpy as np

from .elementary import (
    clamp_above,
    clamp_below,
    divide,
    exp,
    exp_least,
    exp_pair,
    exp_parts,
    expm1_negative,
    fast_two_sum,
    fma,
    integer,
    log1p_unit,
    maximum,
    minimum,
    multiply,
    normal_tail,
    number,
    pick,
    power_of_two,
    scale,
    sigmoid,
    sigmoid_parts,
    two_product,
    two_sum,
)
from .trigonometric import cos, sin


def zero(x):
    return number(x, 0)


def select(condition, a, b):
    """A pair by a condition."""
    return np.where(condition, a[0], b[0]), np.where(condition, a[1], b[1])


# ---- activations ---------------------------------------------------------------------------------


def relu(x):
    return np.where(x <= 0, zero(x), x)


def leaky_relu(x, slope):
    return np.where(x > 0, x, np.where((slope == 0) & (x <= 0), zero(x), slope * x))


def elu(x, alpha):
    m = expm1_negative(np.where(x > 0, zero(x), x))
    return np.where(x >= 0, x, fma(alpha, m[0], alpha * m[1]))


def gated(x, u):
    """x sigmoid(u) for a pair u with the sign of x."""
    negative = u[0] < 0
    k, p, d = sigmoid_parts(*select(negative, u, (-u[0], -u[1])))
    factor = select(negative, p, (number(x, 1), zero(x)))
    q, c = divide(multiply((x, np.zeros_like(x)), factor), d)
    return scale(q + c, np.where(negative, k, 0))


def silu(x):
    c = clamp_above(clamp_below(x, exp_least(x)), number(x, 40))
    return np.where((x > 40) | (x == 0), x, gated(c, (c, np.zeros_like(c))))


def gelu_tanh_constants(x):
    """The pairs A and B."""
    return (
        (
            pick(x, "0x1.988454p+0", "0x1.9884533d43651p+0"),
            pick(x, "-0x1.857936p-25", "-0x1.cbc0d30ebfd15p-54"),
        ),
        (
            pick(x, "0x1.2444f2p-4", "0x1.2444f2a4d8b4bp-4"),
            pick(x, "0x1.49b16ap-29", "-0x1.6c843a29d1c7p-61"),
        ),
    )


def gelu_tanh_argument(x):
    a, b = gelu_tanh_constants(x)
    product = multiply(b, two_product(x, x))
    h, low = two_sum(a[0], product[0])
    return multiply((x, np.zeros_like(x)), (h, low + (a[1] + product[1])))


def within(x, most):
    return clamp_below(clamp_above(x, number(x, most)), number(x, -most))


def gelu_tanh(x):
    c = within(x, 24)
    return np.where((x > 24) | (x == 0), x, gated(c, gelu_tanh_argument(c)))


def normal_most(x):
    return pick(x, 16, 39.5)


def gelu(x):
    y = clamp_above(np.abs(x), normal_most(x))
    k, q, g, _ = normal_tail(y)
    ahead = pick(x, 96, 768)
    a = (y * power_of_two(x, k + integer(ahead))) * q
    rest = np.where(x < 0, number(x, -0.0), x)
    return fma(fma(a, g, a), -power_of_two(x, -integer(ahead)), rest)


def mish_parts(x):
    """k, e, N, D with tanh(softplus(x)) = 2^k N / D and e = e^-|x|."""
    one, two = number(x, 1), number(x, 2)
    negative = x < 0
    k, r, tail = exp_parts(-np.abs(x), zero(x))
    p = exp_pair(r, tail)
    e = scale(p[0], k), scale(p[1], k)

    h, low = fast_two_sum(two, e[0])
    n_below = multiply(p, (h, low + e[1]))
    h, low = fast_two_sum(two, scale(n_below[0], k))
    d_below = h, low + scale(n_below[1], k)

    h, low = fast_two_sum(one, e[0] + e[0])
    n_above = h, low + (e[1] + e[1])
    q = multiply(e, e)
    h, low = fast_two_sum(n_above[0], q[0] + q[0])
    d_above = h, low + (n_above[1] + (q[1] + q[1]))

    return (
        np.where(negative, k, 0),
        e,
        select(negative, n_below, n_above),
        select(negative, d_below, d_above),
    )


def mish(x):
    c = clamp_above(clamp_below(x, exp_least(x)), number(x, 40))
    k, _, n, d = mish_parts(c)
    q, r = divide(multiply((c, np.zeros_like(c)), n), d)
    return np.where((x > 40) | (x == 0), x, scale(q + r, k))


def softplus(x):
    h, low = log1p_unit(exp(-np.abs(x)))
    return np.where(x > 0, x, zero(x)) + (h + low)


def hardswish(x):
    middle = (x * (x + number(x, 3))) / number(x, 6)
    return np.where(x <= -3, zero(x), np.where(x >= 3, x, middle))


def clamp(x, low, high):
    return minimum(maximum(x, low), high)


# ---- gradients -----------------------------------------------------------------------------------


def relu_grad(dy, y):
    return np.where(y <= 0, zero(y), np.where(np.isnan(y), y, dy))


def leaky_relu_grad(dy, x, slope):
    return np.where(x > 0, dy, np.where(np.isnan(x), x, slope * dy))


def elu_grad(dy, x, alpha):
    return np.where(x > 0, dy, dy * (alpha * exp(np.where(x > 0, zero(x), x))))


def gelu_grad(dy, x):
    c = within(x, normal_most(x))
    k, q, g, e = normal_tail(np.abs(c))
    tail = scale(fma(q, g, q), k)
    phi = scale(e * pick(x, "0x1.988454p-2", "0x1.9884533d43651p-2"), k)
    return dy * fma(c, phi, np.where(c < 0, tail, number(x, 1) - tail))


def sigmoid_both(u):
    """sigmoid(u) and sigmoid(-u) of a pair u."""
    negative = u[0] < 0
    k, p, d = sigmoid_parts(*select(negative, u, (-u[0], -u[1])))
    q, c = divide(p, d)
    b = scale(q + c, k)
    rest = number(b, 1) - b
    return np.where(negative, b, rest), np.where(negative, rest, b)


def gelu_tanh_grad(dy, x):
    c = within(x, 24)
    s, n = sigmoid_both(gelu_tanh_argument(c))
    w = fma(c * c, pick(x, "0x1.b6676cp-3", "0x1.b6676bf7450fp-3"), gelu_tanh_constants(x)[0][0])
    return dy * (s * fma(c * w, n, number(x, 1)))


def silu_grad(dy, x):
    c = within(x, -exp_least(x))
    s, n = sigmoid_both((c, np.zeros_like(c)))
    return dy * (s * fma(c, n, number(x, 1)))


def mish_grad(dy, x):
    c = within(x, -exp_least(x))
    k, e, n, d = mish_parts(c)
    t = scale(n[0] / d[0], k)
    power = np.where(c < 0, e[0], e[0] * e[0])
    g = ((number(x, 4) * power) * (number(x, 1) + e[0])) / (d[0] * d[0])
    return dy * fma(c, g, t)


def softplus_grad(dy, x):
    return dy * sigmoid(x)


def hardswish_grad(dy, x):
    middle = dy * (fma(number(x, 2), x, number(x, 3)) / number(x, 6))
    return np.where(x <= -3, zero(x), np.where(x >= 3, dy, middle))


def clamp_grad(dy, x, low, high):
    return np.where((low <= x) & (x <= high), dy, np.where(np.isnan(x), x, zero(x)))


def tanh_grad(dy, y):
    return dy * fma(-y, y, number(y, 1))


def sigmoid_grad(dy, y):
    return dy * (y * (number(y, 1) - y))


def erf_grad(dy, x):
    z = clamp_above(np.abs(x), pick(x, 11, 28))
    h, low = two_product(z, z)
    k, r, tail = exp_parts(-h, -low)
    slope = pick(x, "0x1.20dd76p+0", "0x1.20dd750429b6dp+0"), pick(
        x, "-0x1.f7ac92p-25", "0x1.1ae3a914fed8p-56"
    )
    f = multiply(exp_pair(r, tail), slope)
    return dy * scale(f[0] + f[1], k)


def exp_grad(dy, y):
    return dy * y


def log_grad(dy, x):
    return dy / x


def sqrt_grad(dy, y):
    return dy / (y + y)


def rsqrt_grad(dy, y):
    return ((number(y, -0.5) * dy) * y * y) * y


def sin_grad(dy, x):
    return dy * cos(x)


def cos_grad(dy, x):
    return dy * -sin(x)


def abs_grad(dy, x):
    return np.where(x > 0, dy, np.where(x < 0, -dy, np.where(np.isnan(x), x, zero(x))))
