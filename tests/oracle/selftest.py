#!/usr/bin/python3
"""The oracle held to things that are not the oracle: libm's fma, integers and fractions of Python,
50-digit decimals, loops that spell the rules out one element at a time, published answers of
Philox.

    tests/oracle/selftest.py [NAME...]    runs the tests (all, or those whose name contains a NAME)
"""

import ctypes
import math
import sys
from decimal import Decimal, getcontext
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from trek_oracle import elementary, elements, fused, orders, random_numbers  # noqa: E402
from trek_oracle import text, trigonometric  # noqa: E402
from trek_oracle.elements import SMALL_FLOATS, STORAGE, Value  # noqa: E402
from trek_oracle.instructions import Trap, execute  # noqa: E402
from trek_oracle.program import Program  # noqa: E402

getcontext().prec = 60
LIBM = ctypes.CDLL("libm.so.6")
LIBM.fma.restype, LIBM.fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3
LIBM.fmaf.restype, LIBM.fmaf.argtypes = ctypes.c_float, [ctypes.c_float] * 3


def random_bits(rng, dtype, n):
    return np.frombuffer(rng.bytes(n * STORAGE[dtype]().itemsize), STORAGE[dtype]).copy()


def assert_same(dtype, found, wanted, what):
    different = np.flatnonzero(
        elements.canonical_bits(dtype, found) != elements.canonical_bits(dtype, wanted)
    )
    assert (
        not different.size
    ), f"{what}: element {different[0]}: {found[different[0]]!r}, not {wanted[different[0]]!r}"


# ---- arithmetic ----------------------------------------------------------------------------------


def test_fma_is_that_of_libm():
    rng = np.random.default_rng(1)
    for dtype, reference in (("f32", LIBM.fmaf), ("f64", LIBM.fma)):
        kind, n = STORAGE[dtype], 40_000
        a, b, c = (random_bits(rng, dtype, n) for _ in range(3))
        eps, half_exponent = np.finfo(kind).eps, np.finfo(kind).minexp // 2
        quarter = n // 4
        near, tiny = slice(0, quarter), slice(quarter, 2 * quarter)
        # Sums that cancel all but the last bits; products and sums among the subnormals.
        a[near], b[near] = rng.standard_normal(quarter), rng.standard_normal(quarter)
        c[near] = -(a[near] * b[near]) * (1 + rng.integers(-2, 3, quarter) * eps)
        a[tiny] = rng.standard_normal(quarter) * 2.0 ** (
            half_exponent + rng.integers(-40, 10, quarter)
        )
        b[tiny] = rng.standard_normal(quarter) * 2.0**half_exponent
        c[tiny] = rng.standard_normal(quarter) * 2.0 ** (
            2 * half_exponent + rng.integers(-20, 40, quarter)
        )
        wanted = np.array([reference(*t) for t in zip(a.tolist(), b.tolist(), c.tolist())], kind)
        assert_same(dtype, fused.fma(a, b, c), wanted, f"fma of {dtype}")


def nearest_by_search(values, target):
    """Of ascending (Fraction, bits) the nearest to target, of two the one with even bits."""
    return min(values, key=lambda v: (abs(v[0] - target), v[1] & 1))[1]


def test_small_floats_round_to_the_nearest():
    rng = np.random.default_rng(2)
    for dtype in SMALL_FLOATS:
        patterns = np.arange(1 << (8 * STORAGE[dtype]().itemsize)).astype(STORAGE[dtype])
        decoded = elements.decode_small(dtype, patterns)
        real = ~np.isnan(decoded)
        assert (elements.encode_small(dtype, decoded)[real] == patterns[real]).all(), dtype
        finite = [
            (Fraction(float(v)), int(b))
            for v, b in zip(decoded, patterns)
            if np.isfinite(v) and b < len(patterns) // 2
        ]
        finite.sort()
        step = finite[1][0]
        most = finite[-1][0]
        if len(finite) > 200:  # a sample around random places is enough
            starts = rng.integers(1, len(finite) - 4, 60)
            samples = [finite[s : s + 3] for s in starts] + [finite[:3]]
        else:
            samples = [finite[i : i + 3] for i in range(len(finite) - 2)]
        for near in samples:
            for target in (
                near[0][0] + (near[1][0] - near[0][0]) * Fraction(k, 8) for k in range(9)
            ):
                found = int(elements.encode_small(dtype, float(target)))
                assert found == nearest_by_search(near, target), f"{dtype}: {float(target)}"
        assert (
            int(elements.encode_small(dtype, float(step / 2))) == 0
        ), "half the least goes to even"
        beyond = elements.decode_small(dtype, elements.encode_small(dtype, float(most) * 1.13))
        assert np.isnan(beyond) if dtype == "f8e4m3" else np.isinf(beyond)


def test_casts_to_integers_saturate_and_truncate():
    numbers = [
        0.5,
        -0.5,
        1.99,
        -1.99,
        127.0,
        128.5,
        -128.9,
        -129.0,
        255.9,
        256.0,
        2.0**31,
        -(2.0**31),
        2.0**63,
        1e300,
        -1e300,
        math.inf,
        -math.inf,
        math.nan,
        2.0**63 - 1024,
        9.007199254740993e15,
    ]
    for to in elements.INTS:
        found = elements.cast(Value("f64", np.array(numbers)), to)
        limits = np.iinfo(STORAGE[to])
        for x, y in zip(numbers, found):
            wanted = (
                0
                if x != x
                else (
                    limits.max
                    if x == math.inf
                    else (
                        limits.min
                        if x == -math.inf
                        else min(max(math.trunc(x), limits.min), limits.max)
                    )
                )
            )
            assert int(y) == wanted, f"{x} to {to}: {y}"


def test_casts_from_integers_round_once():
    rng = np.random.default_rng(3)
    numbers = [
        int(n) >> int(s) for n, s in zip(random_bits(rng, "i64", 3000), rng.integers(0, 63, 3000))
    ]
    numbers += [2**62 + 2**54 + 1, 2**62 + 2**54, -(2**62) - 2**54 - 1]  # ties of bf16 but for one
    for to, digits in (("bf16", 8), ("f32", 24), ("f64", 53)):
        found = elements.widen(Value(to, elements.cast(Value("i64", np.array(numbers)), to)))
        for n, y in zip(numbers, found):
            drop = max(abs(n).bit_length() - digits, 0)
            count, rest = divmod(abs(n), 1 << drop)
            count += 2 * rest > 1 << drop or (2 * rest == 1 << drop and count & 1)
            assert int(float(y)) == (count << drop) * (1 if n >= 0 else -1), f"{n} to {to}: {y}"


def test_integer_arithmetic_is_that_of_python_modulo_2_to_the_n():
    every = np.arange(-128, 128).astype(np.int8)
    x, y = (Value("i8", a.ravel()) for a in np.meshgrid(every, every))
    nonzero = Value("i8", np.where(y.data == 0, 5, y.data))

    def wrapped(n):
        return (n + 128) % 256 - 128

    rules = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
        "mod": lambda a, b: a % b,
        "shl": lambda a, b: a << (b % 256) if b % 256 < 8 else 0,
        "shr": lambda a, b: a >> (b % 256) if b % 256 < 8 else (-1 if a < 0 else 0),
    }
    for mnemonic, rule in rules.items():
        second = nonzero if mnemonic in ("div", "mod") else y
        found = execute(mnemonic, [x, second], {})[0].data
        wanted = [wrapped(rule(int(a), int(b))) for a, b in zip(x.data, second.data)]
        assert (found == np.array(wanted)).all(), mnemonic


def test_float_mod_is_the_exact_remainder_moved_once():
    rng = np.random.default_rng(4)
    x, y = random_bits(rng, "f32", 4000), random_bits(rng, "f32", 4000)
    for a, b, r in zip(x, y, elementary.mod(x, y)):
        if not (np.isfinite(a) and np.isfinite(b)) or b == 0:
            continue
        exact = Fraction(float(a)) % Fraction(float(b))  # with the sign of b
        truncated = exact if (a < 0) == (b < 0) or exact == 0 else exact - Fraction(float(b))
        assert (
            Fraction(float(np.float32(float(truncated)))) == truncated
        ), "a remainder is a number of the type"
        wanted = (
            truncated
            if (a < 0) == (b < 0)
            else np.float32(float(truncated)) + (b if truncated else 0)
        )
        assert r == wanted, f"mod({a!r}, {b!r}) = {r!r}"


# ---- functions -----------------------------------------------------------------------------------

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


def decimal_sin(x):
    x %= 2 * PI
    term, total, k = x, x, 1
    while abs(term) > Decimal(10) ** -50:
        k += 2
        term *= -x * x / (k * (k - 1))
        total += term
    return total


def decimal_erf(x):
    term, total, k = x, x, 0
    while abs(term) > Decimal(10) ** -55:
        k += 1
        term *= -x * x / k
        total += term / (2 * k + 1)
    return 2 / PI.sqrt() * total


def decimal_tanh(x):
    return 1 - 2 / ((2 * x).exp() + 1)


EXACT = {
    elementary.exp: (lambda x: x.exp(), -30, 30),
    elementary.log: (lambda x: x.ln(), 1e-3, 1e3),
    elementary.rsqrt: (lambda x: 1 / x.sqrt(), 1e-3, 1e3),
    trigonometric.sin: (decimal_sin, -40, 40),
    trigonometric.cos: (lambda x: decimal_sin(x + PI / 2), -40, 40),
    elementary.tanh: (decimal_tanh, -8, 8),
    elementary.sigmoid: (lambda x: 1 / (1 + (-x).exp()), -30, 30),
    elementary.erf: (decimal_erf, -4, 4),
}


def test_functions_are_within_two_ulp_of_exact():
    rng = np.random.default_rng(5)
    for function, (exact, low, high) in EXACT.items():
        for kind in (np.float64, np.float32):
            x = rng.uniform(low, high, 200).astype(kind)
            for a, y in zip(x, function(x)):
                wanted = exact(Decimal(float(a)))
                ulp = Decimal(float(np.spacing(kind(abs(float(wanted))))))
                error = abs(Decimal(float(y)) - wanted) / ulp
                assert error < 2, f"{function.__name__}({a!r}) = {y!r}: {error:.2f} ulp"


def test_pow_is_within_two_ulp_of_exact():
    rng = np.random.default_rng(6)
    for kind in (np.float64, np.float32):
        x, y = rng.uniform(0.1, 10, 200).astype(kind), rng.uniform(-20, 20, 200).astype(kind)
        for a, b, found in zip(x, y, elementary.pow_(x, y)):
            wanted = (Decimal(float(b)) * Decimal(float(a)).ln()).exp()
            error = abs(Decimal(float(found)) - wanted) / Decimal(
                float(np.spacing(kind(float(wanted))))
            )
            assert error < 2, f"pow({a!r}, {b!r}) = {found!r}: {error:.2f} ulp"


def test_sin_and_cos_of_large_arguments():
    rng = np.random.default_rng(7)
    x = 2.0 ** rng.uniform(17, 120, 200)
    x = np.concatenate([x, x.astype(np.float32).astype(np.float64)])
    saved, getcontext().prec = getcontext().prec, 120
    pi = Decimal(2 << trigonometric.PI_BITS) / Decimal(trigonometric.two_over_pi())
    for a, s, c in zip(x, trigonometric.sin(x), trigonometric.cos(x)):
        rest = Decimal(float(a)) % (2 * pi)
        assert abs(Decimal(float(s)) - decimal_sin(rest)) < Decimal(2) ** -51, f"sin({a!r})"
        assert (
            abs(Decimal(float(c)) - decimal_sin(rest + pi / 2)) < Decimal(2) ** -51
        ), f"cos({a!r})"
    getcontext().prec = saved
    assert abs(pi - PI) < Decimal(10) ** -50


def test_gradients_are_slopes():
    x = np.concatenate([np.linspace(-6, 6, 241), [-0.01, 0.013]])
    x = x[np.abs(x) > 1e-3]
    h = 1e-5
    one = Value("f64", np.ones_like(x))
    for name in (
        "sin",
        "cos",
        "erf",
        "gelu",
        "gelu.tanh",
        "silu",
        "mish",
        "softplus",
        "elu",
        "leaky_relu",
    ):
        high, low = (execute(name, [Value("f64", x + d)], {})[0].data for d in (h, -h))
        slope = execute(f"{name}.grad", [one, Value("f64", x)], {})[0].data
        assert np.abs((high - low) / (2 * h) - slope).max() < 1e-8, name
    for name in ("exp", "tanh", "sigmoid"):  # from the result
        high, y, low = (execute(name, [Value("f64", x + d)], {})[0].data for d in (h, 0, -h))
        slope = execute(f"{name}.grad", [one, Value("f64", y)], {})[0].data
        assert np.abs((high - low) / (2 * h) / slope - 1).max() < 1e-6, name


# ---- orders --------------------------------------------------------------------------------------


def one_dot(a, b):
    """The dot order, one element at a time, with libm's fma."""
    segments = []
    for segment in range(0, len(a), 4096):
        blocks = []
        for block in range(segment, min(segment + 4096, len(a)), 64):
            accumulator = 0.0
            for k in range(block, min(block + 64, len(a))):
                accumulator = LIBM.fmaf(a[k], b[k], accumulator)
            blocks.append(np.float32(accumulator))
        total = blocks[0]
        for sum_ in blocks[1:]:
            total = np.float32(total + sum_)
        segments.append(total)
    total = segments[0] if segments else np.float32(0)
    for sum_ in segments[1:]:
        total = np.float32(total + sum_)
    return total


def test_dot_order():
    rng = np.random.default_rng(8)
    for k in (0, 1, 63, 64, 65, 128, 200, 4096, 4097, 8200):
        a, b = rng.standard_normal((2, k)).astype(np.float32), rng.standard_normal((k, 2)).astype(
            np.float32
        )
        found = orders.dot(a, b)
        for i in range(2):
            for j in range(2):
                assert found[i, j] == one_dot(a[i].tolist(), b[:, j].tolist()), f"K = {k}"


def one_reduction(x):
    """The reduction order in the words of isa/README.md."""
    while len(x) > 1:
        tiles = []
        for first in range(0, len(x), 1024):
            partials = [None] * 32
            for i, value in enumerate(x[first : first + 1024]):
                partials[i % 32] = (
                    value if partials[i % 32] is None else np.float32(partials[i % 32] + value)
                )
            for width in (16, 8, 4, 2, 1):
                for j in range(width):
                    a, b = partials[j], partials[j + width]
                    partials[j] = b if a is None else a if b is None else np.float32(a + b)
            tiles.append(partials[0])
        x = tiles
    return x[0]


def test_reduction_order():
    rng = np.random.default_rng(9)
    for n in (1, 2, 31, 32, 33, 48, 100, 1023, 1024, 1025, 2100, 33_000):
        x = rng.standard_normal((n, 2)).astype(np.float32)
        found = orders.sum_in_order(x)
        for column in range(2):
            assert found[column] == one_reduction(list(x[:, column])), f"n = {n}"
    assert one_reduction(list(np.float32([-0.0] * 5))) == 0 and np.signbit(
        orders.sum_in_order(np.float32([[-0.0]] * 5))[0]
    )


def test_cumsum_has_blocks_of_32():
    x = np.random.default_rng(10).standard_normal(100).astype(np.float32)
    found = execute("cumsum", [Value("f32", x)], {})[0].data
    offset, running = None, None
    for i, value in enumerate(x):
        running = value if i % 32 == 0 else np.float32(running + value)
        assert found[i] == (running if offset is None else np.float32(offset + running)), i
        if i % 32 == 31:
            offset = running if offset is None else np.float32(offset + running)


# ---- random numbers, text, programs --------------------------------------------------------------


def test_philox_gives_the_published_answers():
    # Random123's kat_vectors, philox4x32 10.
    vectors = [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ]
    for counter, key, answer in vectors:
        words = random_numbers.philox([np.array([c], np.uint64) for c in counter], key)
        assert tuple(int(w[0]) for w in words) == answer


def test_normal_numbers_are_normal():
    for to in ("f32", "f64"):
        x = execute("normal", [], {"shape": [100_000], "to": to, "key": 3})[0].data
        assert abs(x.mean()) < 0.02 and abs(x.std() - 1) < 0.02 and abs((x**3).mean()) < 0.05


def test_numbers_read_back_as_they_were():
    rng = np.random.default_rng(11)
    for dtype in elements.ALL:
        data = random_bits(rng, dtype if dtype != "bool" else "u8", 2000)
        data = data % 2 == 1 if dtype == "bool" else data
        value = Value(dtype, data)
        back = text.parse_data(text.data_text(value), text.Type(dtype, value.shape), {})
        assert_same(dtype, back.data, value.data, dtype)


PROGRAM = """
.trek 1.0
.const N = 10
.param $start i64 = 0
.state @w f32[2] = {1, 0x1.8p-1}
.output @fib i64[N]      ; Fibonacci numbers
.func step(%w! f32[2], $by f32) -> (f32[2], i64) {
  %w = mul %w, $by
  %old = neg %w
  return %old, 7
}
.func main() {
  $a, $b = loop $i = $start until N carry $x = 0, $y = 1 {
    store! @fib, $x, at=[$i]
    $z = add $x, $y
    yield $y, $z
  }
  $n = while carry $k = 0 {
    $go = lt $k, 3
    test $go
    %o, $seven = call step(@w, 0.5)
    $k1 = add $k, 1
    yield $k1
  }
  $is3 = eq $n, 3
  if $is3 {
    emit "a", $a
  } else {
    trap "no"
  }
  %bad = gather @fib, @fib
}
"""


def test_a_program_runs_to_its_trap():
    module = text.parse(PROGRAM)
    outcome = Program(module).run()
    assert outcome.tensors["fib"].data.tolist() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    assert outcome.tensors["w"].data.tolist() == [0.125, 0.09375]
    assert [(name, int(v.data)) for name, v in outcome.emitted] == [("a", 55)]
    assert (outcome.trap.name, outcome.trap.element) == ("index-out-of-range", 7)
    assert PROGRAM.splitlines()[outcome.line - 1].strip() == "%bad = gather @fib, @fib"


def test_the_lowest_offending_element_traps():
    x, y = Value("i32", [[1], [2]]), Value("i32", [1, 0, 0])
    try:
        execute("div", [x, y], {})
    except Trap as trap:
        assert (trap.name, trap.element) == ("divide-by-zero", 1)
    else:
        raise AssertionError("no trap")


def main(wanted):
    tests = [
        (n, f)
        for n, f in globals().items()
        if n.startswith("test_") and (not wanted or any(w in n for w in wanted))
    ]
    if not tests:
        sys.exit(f"no test is named like {' '.join(wanted)}")
    failed = 0
    for name, function in tests:
        try:
            with np.errstate(all="ignore"):
                function()
            print(f"pass {name}")
        except AssertionError as problem:
            failed += 1
            print(f"FAIL {name}: {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
