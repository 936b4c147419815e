"""Element types, values, and conversions between types.

A Value is a dtype and a numpy array of its storage. f64, f32, integers and bool are numpy's own
types; f16, bf16, f8e4m3 and f8e5m2 are bit patterns in unsigned arrays, so that no rounding happens
here but the one that `narrow` spells out. Arithmetic happens on what `widen` gives: the compute
type C.
"""

import numpy as np

STORAGE = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.uint16,
    "bf16": np.uint16,
    "f8e4m3": np.uint8,
    "f8e5m2": np.uint8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "bool": np.bool_,
}
# Exponent bits, mantissa bits, and whether the top exponent stands for infinity and NaNs.
SMALL_FLOATS = {
    "f16": (5, 10, True),
    "bf16": (8, 7, True),
    "f8e4m3": (4, 3, False),
    "f8e5m2": (5, 2, True),
}

REALS = ["f64", "f32", "f16", "bf16"]
INTS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
NUMBERS = REALS + INTS
ORDERED = NUMBERS + ["bool"]
ALL = ORDERED + ["f8e4m3", "f8e5m2"]


def is_real(dtype):
    return dtype in SMALL_FLOATS or dtype in ("f32", "f64")


def is_integer(dtype):
    return dtype in INTS


def compute_type(dtype):
    """C: f32 for the 16- and 8-bit floats, else the type itself."""
    return "f32" if dtype in SMALL_FLOATS else dtype


def scalar_type(dtype):
    """The type of the scalar register that holds an element."""
    if is_real(dtype):
        return compute_type(dtype)
    return "bool" if dtype == "bool" else "i64"


class Value:
    """A tensor, or a scalar register, which has no shape (its data is 0-dimensional)."""

    __slots__ = ("dtype", "data", "scalar")

    def __init__(self, dtype, data, scalar=False):
        self.dtype = dtype
        self.data = np.ascontiguousarray(data, STORAGE[dtype]).reshape(np.shape(data))
        self.scalar = scalar

    @property
    def shape(self):
        return self.data.shape

    def type_text(self):
        if self.scalar:
            return self.dtype
        return f"{self.dtype}[{','.join(str(d) for d in self.shape)}]"

    def bytes(self):
        return self.data.tobytes()


def zeros(dtype, shape):
    return Value(dtype, np.zeros(shape, STORAGE[dtype]))


def decode_small(dtype, bits):
    """The f64 values of bit patterns of a small float type."""
    exponent_bits, mantissa_bits, has_infinity = SMALL_FLOATS[dtype]
    bits = np.asarray(bits).astype(np.int64)
    bias = 2 ** (exponent_bits - 1) - 1
    top = 2**exponent_bits - 1
    mantissa = bits & (2**mantissa_bits - 1)
    exponent = (bits >> mantissa_bits) & top
    sign = np.where(bits >> (exponent_bits + mantissa_bits) & 1, -1.0, 1.0)
    significand = np.where(exponent == 0, mantissa, mantissa + 2**mantissa_bits).astype(np.float64)
    magnitude = np.ldexp(
        significand, (np.maximum(exponent, 1) - bias - mantissa_bits).astype(np.int32)
    )
    if has_infinity:
        magnitude = np.where(exponent == top, np.where(mantissa == 0, np.inf, np.nan), magnitude)
    else:
        magnitude = np.where(
            (exponent == top) & (mantissa == 2**mantissa_bits - 1), np.nan, magnitude
        )
    return sign * magnitude


def encode_small(dtype, values):
    """f64 values to bit patterns of a small float type, rounded once to nearest even.

    What rounds beyond the greatest finite number is infinity, or NaN in a type that has none.
    """
    exponent_bits, mantissa_bits, has_infinity = SMALL_FLOATS[dtype]
    values = np.asarray(values, np.float64)
    bias = 2 ** (exponent_bits - 1) - 1
    top = 2**exponent_bits - 1
    nan = (top << mantissa_bits) | (
        2 ** (mantissa_bits - 1) if has_infinity else 2**mantissa_bits - 1
    )
    beyond = top << mantissa_bits if has_infinity else nan
    magnitude = np.abs(np.where(np.isfinite(values), values, 0.0))
    # The exponent of the unit in the last place: of the number's binade, or of the subnormals.
    least = 1 - bias - mantissa_bits
    unit = np.maximum(np.frexp(magnitude)[1] - 1 - mantissa_bits, least)
    count = np.rint(np.ldexp(magnitude, -unit)).astype(np.int64)  # rint: halves to even
    # From 2^mantissa_bits on there is a hidden bit; a count rounded up to the next power carries.
    normal = count >= 2**mantissa_bits
    bits = np.where(
        normal,
        ((unit - least + 1).astype(np.int64) << mantissa_bits) + count - 2**mantissa_bits,
        count,
    )
    bits = np.where(bits >= beyond, beyond, bits)
    bits = np.where(np.isinf(values), beyond, bits)
    bits |= np.signbit(values).astype(np.int64) << (exponent_bits + mantissa_bits)
    bits = np.where(np.isnan(values), nan, bits)
    return bits.astype(STORAGE[dtype])


def widen(value):
    """The data of a value in its compute type; exact."""
    if value.dtype in SMALL_FLOATS:
        return decode_small(value.dtype, value.data).astype(np.float32)
    return value.data


def narrow(dtype, array):
    """Data in the compute type to the storage of a type, floats rounded once."""
    if dtype in SMALL_FLOATS:
        return encode_small(dtype, np.asarray(array).astype(np.float64))
    return np.asarray(array).astype(STORAGE[dtype])


def real_to_integer(array, dtype):
    """Truncated toward zero, saturated, NaN to 0."""
    limits = np.iinfo(STORAGE[dtype])
    array = np.asarray(array, np.float64)
    whole = np.trunc(np.where(np.isnan(array), 0.0, array))
    # The limits as f64: the upper one may round up to a power of two, which is outside already.
    above = whole >= float(limits.max)
    below = whole <= float(limits.min)
    inside = np.where(above | below, 0.0, whole)
    result = inside.astype(np.int64 if limits.min < 0 else np.uint64).astype(STORAGE[dtype])
    return np.where(above, limits.max, np.where(below, limits.min, result)).astype(STORAGE[dtype])


def integer_to_real(array, dtype):
    """Rounded once."""
    if dtype in ("f64", "f32"):
        return array.astype(STORAGE[dtype])
    # Through f64 there would be two roundings: beyond 2^53, bits that f64 drops are first gathered
    # in the lowest that it keeps.
    negative = array < 0
    magnitude = np.where(
        negative, (~array).astype(np.uint64) + np.uint64(1), array.astype(np.uint64)
    )
    rest = (magnitude & np.uint64(0x7FF)) != 0
    gathered = (magnitude & ~np.uint64(0x7FF)) | (rest.astype(np.uint64) << np.uint64(11))
    exact = np.where(magnitude < np.uint64(2**53), magnitude, gathered).astype(np.float64)
    return encode_small(dtype, np.where(negative, -exact, exact))


def cast(value, dtype):
    """The instruction `cast`: the data of `value` as another type."""
    if value.dtype == dtype:
        return value.data
    source = widen(value)
    if dtype == "bool":
        return source != 0
    if is_real(value.dtype):
        return narrow(dtype, source) if is_real(dtype) else real_to_integer(source, dtype)
    if is_real(dtype):
        return integer_to_real(source.astype(np.int64) if value.dtype == "bool" else source, dtype)
    return source.astype(STORAGE[dtype])  # modulo 2^n


def from_number(dtype, number):
    """A number of Python as data of a type: integers exact, reals rounded once from f64."""
    if dtype == "bool":
        return np.bool_(number)
    if dtype in SMALL_FLOATS:
        return encode_small(dtype, float(number))[()]
    if is_real(dtype):
        with np.errstate(over="ignore"):
            return STORAGE[dtype](float(number))
    return np.array(int(number) % 2**64, np.uint64).astype(STORAGE[dtype])[()]


def canonical_bits(dtype, data):
    """The bits of each element as unsigned integers, all NaNs made one: what is compared."""
    data = np.asarray(data)
    if dtype == "bool":
        return data.astype(np.uint8)
    # Of rank 0, ascontiguousarray would make rank 1.
    bits = np.ascontiguousarray(data).view(f"u{data.dtype.itemsize}").reshape(data.shape)
    if not is_real(dtype):
        return bits
    wide = decode_small(dtype, bits) if dtype in SMALL_FLOATS else data
    nan = {"f64": 0x7FF8000000000000, "f32": 0x7FC00000}.get(dtype)
    nan = int(encode_small(dtype, np.nan)) if nan is None else nan
    return np.where(np.isnan(wide), bits.dtype.type(nan), bits)


def order_key(dtype, data):
    """Integers that compare as `sort` orders: -inf ... -0, +0 ... +inf, NaN (all equal)."""
    if dtype == "u64":
        return (data ^ np.uint64(2**63)).view(np.int64)
    if not is_real(dtype):
        return data.astype(np.int64)
    bits = canonical_bits(dtype, data)
    width = 8 * bits.dtype.itemsize
    signed = bits.astype(np.uint64)
    sign = np.uint64(1 << (width - 1))
    magnitude = (signed & ~sign).astype(np.int64)
    key = np.where(signed & sign, ~magnitude, magnitude)
    return np.where(is_nan(dtype, data), np.int64(2**63 - 1), key)


def is_nan(dtype, data):
    if dtype in SMALL_FLOATS:
        return np.isnan(decode_small(dtype, data))
    return np.isnan(data) if is_real(dtype) else np.zeros(np.shape(data), bool)
