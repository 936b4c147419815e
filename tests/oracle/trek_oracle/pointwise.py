"""Pointwise instructions and their gradients."""

import numpy as np

from . import activation, elementary, trigonometric
from .elements import Value, is_real, narrow, widen
from .fused import fma
from .instructions import Trap, instruction

# ---- floats: a function of C, rounded to T -------------------------------------------------------


def on_reals(c, function, operands, extra=()):
    wide = np.broadcast_arrays(*[widen(x) for x in operands])
    return c.result(narrow(c.dtype, function(*[np.array(w) for w in wide], *extra)))


REAL_FUNCTIONS = {  # mnemonic: function; all T
    "floor": elementary.floor,
    "ceil": elementary.ceil,
    "round": elementary.round_even,
    "exp": elementary.exp,
    "log": elementary.log,
    "sqrt": np.sqrt,
    "rsqrt": elementary.rsqrt,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tanh": elementary.tanh,
    "sigmoid": elementary.sigmoid,
    "erf": elementary.erf,
    "relu": activation.relu,
    "gelu": activation.gelu,
    "gelu.tanh": activation.gelu_tanh,
    "silu": activation.silu,
    "mish": activation.mish,
    "softplus": activation.softplus,
    "hardswish": activation.hardswish,
}
REAL_PAIRS = {
    "pow": elementary.pow_,
    "abs.grad": activation.abs_grad,
    "exp.grad": activation.exp_grad,
    "log.grad": activation.log_grad,
    "sqrt.grad": activation.sqrt_grad,
    "rsqrt.grad": activation.rsqrt_grad,
    "sin.grad": activation.sin_grad,
    "cos.grad": activation.cos_grad,
    "tanh.grad": activation.tanh_grad,
    "sigmoid.grad": activation.sigmoid_grad,
    "erf.grad": activation.erf_grad,
    "relu.grad": activation.relu_grad,
    "gelu.grad": activation.gelu_grad,
    "gelu.tanh.grad": activation.gelu_tanh_grad,
    "silu.grad": activation.silu_grad,
    "mish.grad": activation.mish_grad,
    "softplus.grad": activation.softplus_grad,
    "hardswish.grad": activation.hardswish_grad,
}


def register_reals():
    for name, function in REAL_FUNCTIONS.items():
        instruction(name, "T")(lambda c, x, function=function: on_reals(c, function, [x]))
    for name, function in REAL_PAIRS.items():
        instruction(name, "T T")(lambda c, x, y, function=function: on_reals(c, function, [x, y]))


register_reals()


@instruction("fma", "T T T")
def fma_instruction(c, x, y, z):
    return on_reals(c, fma, [x, y, z])


@instruction("leaky_relu", "T")
def leaky_relu(c, x):
    return on_reals(c, activation.leaky_relu, [x], [c.real("slope", 0.01)])


@instruction("elu", "T")
def elu(c, x):
    return on_reals(c, activation.elu, [x], [c.real("alpha", 1)])


@instruction("leaky_relu.grad", "T T")
def leaky_relu_grad(c, dy, x):
    return on_reals(c, activation.leaky_relu_grad, [dy, x], [c.real("slope", 0.01)])


@instruction("elu.grad", "T T")
def elu_grad(c, dy, x):
    return on_reals(c, activation.elu_grad, [dy, x], [c.real("alpha", 1)])


def bounds(c):
    """The element attributes low and high, widened."""
    return [widen(Value(c.dtype, c.number(name, c.dtype))) for name in ("low", "high")]


@instruction("clamp.grad", "T T")
def clamp_grad(c, dy, x):
    return on_reals(c, activation.clamp_grad, [dy, x], bounds(c))


@instruction("clamp", "T")
def clamp(c, x):
    if is_real(c.dtype):
        low, high = (np.broadcast_to(b, x.shape) for b in bounds(c))
        return c.result(narrow(c.dtype, activation.clamp(widen(x), low, high)))
    low, high = bounds(c)
    return c.result(np.minimum(np.maximum(x.data, low), high))


# ---- numbers: floats, and integers modulo 2^n ----------------------------------------------------


def numbers(mnemonic, on_floats, on_integers):
    @instruction(mnemonic, "T T")
    def execute(c, x, y):
        if is_real(c.dtype):
            return on_reals(c, on_floats, [x, y])
        return c.result(on_integers(*np.broadcast_arrays(x.data, y.data)))


numbers("add", lambda x, y: x + y, lambda x, y: x + y)
numbers("sub", lambda x, y: x - y, lambda x, y: x - y)
numbers("mul", lambda x, y: x * y, lambda x, y: x * y)
numbers("maximum", elementary.maximum, np.maximum)
numbers("minimum", elementary.minimum, np.minimum)


def trap_at_zero(y):
    zero = np.flatnonzero(y == 0)
    if zero.size:
        raise Trap("divide-by-zero", int(zero[0]))


def magnitude(x):
    """|x| as u64, also of the least integer."""
    bits = x.astype(np.uint64)
    return np.where(x < 0, ~bits + np.uint64(1), bits)


def divide_integers(x, y):
    """Truncated toward zero; the least integer by -1 is itself."""
    trap_at_zero(y)
    quotient = magnitude(x) // magnitude(y)
    return np.where((x < 0) != (y < 0), ~quotient + np.uint64(1), quotient).astype(x.dtype)


def modulo_integers(x, y):
    """With the sign of y."""
    trap_at_zero(y)
    rest = magnitude(x) % magnitude(y)
    rest = np.where(x < 0, ~rest + np.uint64(1), rest)  # the sign of x, modulo 2^64
    move = (rest != 0) & ((x < 0) != (y < 0))
    return (rest + np.where(move, y.astype(np.uint64), np.uint64(0))).astype(x.dtype)


numbers("div", lambda x, y: x / y, divide_integers)
numbers("mod", elementary.mod, modulo_integers)


@instruction("neg", "T")
def neg(c, x):
    return (
        on_reals(c, lambda a: -a, [x])
        if is_real(c.dtype)
        else c.result(np.zeros_like(x.data) - x.data)
    )


@instruction("abs", "T")
def abs_(c, x):
    if is_real(c.dtype):
        return on_reals(c, np.abs, [x])
    return c.result(np.where(x.data < 0, np.zeros_like(x.data) - x.data, x.data))


@instruction("sign", "T")
def sign(c, x):
    if is_real(c.dtype):
        return on_reals(c, elementary.sign, [x])
    return c.result((x.data > 0).astype(x.data.dtype) - (x.data < 0).astype(x.data.dtype))


# ---- comparisons ---------------------------------------------------------------------------------


def comparison(mnemonic, function):
    @instruction(mnemonic, "T T")
    def execute(c, x, y):
        return c.result(function(*np.broadcast_arrays(widen(x), widen(y))), "bool")


comparison("eq", np.equal)
comparison("ne", np.not_equal)
comparison("lt", np.less)
comparison("le", np.less_equal)
comparison("gt", np.greater)
comparison("ge", np.greater_equal)

# ---- bits ----------------------------------------------------------------------------------------


def on_bits(mnemonic, function):
    @instruction(mnemonic, "T T")
    def execute(c, x, y):
        return c.result(function(*np.broadcast_arrays(x.data, y.data)))


on_bits("and", lambda x, y: x & y)
on_bits("or", lambda x, y: x | y)
on_bits("xor", lambda x, y: x ^ y)


@instruction("not", "T")
def not_(c, x):
    return c.result(~x.data)


def shift(mnemonic, within, beyond):
    """Shifts whose count is read as unsigned; from the width on, `beyond` gives the result."""

    @instruction(mnemonic, "T T")
    def execute(c, x, y):
        a, count = np.broadcast_arrays(x.data, y.data)
        width = 8 * a.dtype.itemsize
        count = count.view(f"u{a.dtype.itemsize}") if count.dtype.kind == "i" else count
        inside = np.where(count < width, count, 0).astype(a.dtype)
        return c.result(np.where(count < width, within(a, inside), beyond(a)).astype(a.dtype))


shift("shl", lambda a, n: a << n, np.zeros_like)
# Beyond the width: -1 for a negative x, 0 else.
shift("shr", lambda a, n: a >> n, lambda a: np.zeros_like(a) - (a < 0).astype(a.dtype))
