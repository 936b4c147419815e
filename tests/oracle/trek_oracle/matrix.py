"""matmul."""

import numpy as np

from .elements import Value, cast, is_real, widen
from .instructions import execute, instruction
from .orders import dot


def matrices(c, a, b):
    """The operands in compute type as [..., M, K] and [..., K, N], batch axes broadcast."""
    left, right = widen(a), widen(b)
    if c.flag("ta"):
        left = np.swapaxes(left, -1, -2)
    if c.flag("tb"):
        right = np.swapaxes(right, -1, -2)
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return (
        np.broadcast_to(left, batch + left.shape[-2:]),
        np.broadcast_to(right, batch + right.shape[-2:]),
    )


def integer_product(c, left, right):
    accumulator = "i64" if left.dtype.itemsize == 8 else "i32"
    wide = np.int64 if accumulator == "i64" else np.int32
    product = np.matmul(left.astype(wide), right.astype(wide))  # modulo 2^n
    if c.has("bias"):
        product = product + c.attributes["bias"].data
    to = c.attributes.get("to", accumulator)
    return Value(to, cast(Value(accumulator, product), to))


@instruction("matmul", "T T")
def matmul(c, a, b):
    left, right = matrices(c, a, b)
    if not is_real(c.dtype):
        return integer_product(c, left, right)
    result = dot(left, right)
    if c.has("scale"):
        result = result * c.real("scale")
    if c.has("bias"):
        result = result + widen(c.attributes["bias"])
    if c.has("tail"):
        result = execute(c.attributes["tail"], [Value(c.compute, result)], {})[0].data
    to = c.attributes.get("to", c.dtype)
    return Value(to, cast(Value(c.compute, result), to))
