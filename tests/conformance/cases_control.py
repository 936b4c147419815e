"""Conformance cases of control: regions, calls, memory, traps, streams."""

from trek_oracle.cases import Case, special_numbers, tensor
from trek_oracle.elements import ALL, REALS, Value, from_number, scalar_type, zeros


def counter(value=0):
    """A tensor of rank 0 to count in."""
    return {"n": tensor("i64", value, ())}


def loop_cases():
    def trips(title, header, scalars=None, trap=None):
        text = f"loop $i = {header} {{\n  %v = mul @n, 10\n  %w = add %v, $i\n  @n = copy %w\n}}"
        return Case(title, text, {}, counter(), scalars or {}, trap=trap)

    yield trips("counts up", "1 until 5")
    yield trips("counts down", "5 until 1 step -2")
    yield trips("no trip", "3 until 3")
    yield trips("no trip downwards", "1 until 5 step -1")
    yield trips("a step that goes past the end", "0 until 5 step 3")
    yield trips(
        "bounds from scalars",
        "$a until $b step $c",
        {"a": ("i64", 9), "b": ("i64", 2), "c": ("i64", -3)},
    )
    yield trips("step 0", "0 until 5 step $c", {"c": ("i64", 0)}, "invalid-argument")
    yield trips("near the greatest integer", "9223372036854775806 until 9223372036854775807 step 5")
    yield Case(
        "carried registers",
        "%h, $s = loop $i = 0 until 4 carry %c = @x, $t = 1 {\n"
        "  %d = mul %c, 0.5\n  $u = mul $t, 3\n  yield %d, $u\n}\n"
        "@r = copy %h\nstore! @s, $s, at=[]",
        {"x": tensor("f32", [1.0, -3.0])},
        outputs={"r": ("f32", (2,)), "s": ("i64", ())},
    )
    yield Case(
        "carried registers that change places",
        "%p, %q = loop $i = 0 until 3 carry %a = @x, %b = @y {\n"
        "  yield %b, %a\n}\n@r = copy %p\n@s = copy %q",
        {"x": tensor("f32", [1.0]), "y": tensor("f32", [2.0])},
    )
    yield Case(
        "carried without a trip",
        "%h = loop $i = 0 until 0 carry %c = @x {\n  %d = neg %c\n  yield %d\n}\n" "@r = copy %h",
        {"x": tensor("f32", [1.5])},
    )
    yield Case(
        "loops in loops",
        "loop $i = 0 until 3 {\n  loop $j = 0 until $i {\n    %a = mul @n, 10\n"
        "    $k = add $i, $j\n    %b = add %a, $k\n    @n = copy %b\n  }\n}",
        {},
        counter(),
    )


def while_cases():
    yield Case(
        "doubles until 100",
        "$r = while carry $n = 3 {\n  $go = lt $n, 100\n  test $go\n"
        "  $m = add $n, $n\n  yield $m\n}\nstore! @r, $r, at=[]",
        outputs={"r": ("i64", ())},
    )
    yield Case(
        "leaves at once",
        "%h, $r = while carry %c = @x, $n = 3 {\n  test false\n  %d = neg %c\n  yield %d, 4\n}\n"
        "store! @r, $r, at=[]\n@q = copy %h",
        {"x": tensor("f32", [2.0])},
        outputs={"r": ("i64", ()), "q": ("f32", (1,))},
    )
    yield Case(
        "nothing carried; a test in the middle",
        "while {\n  %a = add @n, 1\n  @n = copy %a\n"
        "  $v = load @n, at=[]\n  $go = lt $v, 5\n  test $go\n  %b = add @n, 10\n  @n = copy %b\n}",
        {},
        counter(-20),
    )


def if_cases():
    for c in ("true", "false"):
        yield Case(
            f"{c}: values of both regions",
            "%r, $s = if $c {\n  %a = neg @x\n  yield %a, 1\n} else {\n  yield @x, 2\n}\n"
            "@r = copy %r\n"
            "store! @s, $s, at=[]",
            {"x": tensor("f32", [1.0, 2.0])},
            scalars={"c": ("bool", c == "true")},
            outputs={"r": ("f32", (2,)), "s": ("i64", ())},
        )
        yield Case(
            f"{c}: without else",
            "if $c {\n  @n = add @n, 5\n}",
            {},
            counter(),
            {"c": ("bool", c == "true")},
        )
        yield Case(
            f"{c}: one in the other",
            "if $c {\n  $d = gt $k, 3\n  if $d {\n    @n = add @n, 1\n  } else {\n"
            "    @n = add @n, 2\n  }\n} else {\n  @n = add @n, 4\n}",
            {},
            counter(),
            {"c": ("bool", c == "true"), "k": ("i64", 4)},
        )


def test_cases():
    yield Case(
        "in the first trip",
        'while {\n  test false\n  trap "not reached"\n}\n@n = add @n, 1',
        {},
        counter(),
    )
    yield Case(
        "of two loops, the inner one ends",
        "loop $i = 0 until 2 {\n  while {\n    @n = add @n, 1\n"
        "    %m = mod @n, 3\n    $v = load %m, at=[]\n    $go = ne $v, 0\n    test $go\n  }\n}",
        {},
        counter(),
    )


def else_cases():
    return [case for case in if_cases() if "else" in case.statements]


def yield_cases():
    yield Case(
        "of a loop: immediates have the carried types",
        "$a, $b = loop $i = 0 until 1 carry $p = 0.5, $q = 7 {\n"
        "  yield 3, 4\n}\nstore! @r, $a, at=[]\nstore! @s, $b, at=[]",
        outputs={"r": ("f32", ()), "s": ("i64", ())},
    )
    yield Case(
        "of an if: immediates as written",
        "$a, $b, $d = if $c {\n  yield 3, 0.25, true\n} else {\n"
        "  yield 4, 1, false\n}\nstore! @r, $a, at=[]\nstore! @s, $b, at=[]\nstore! @t, $d, at=[]",
        scalars={"c": ("bool", False)},
        outputs={"r": ("i64", ()), "s": ("f32", ()), "t": ("bool", ())},
    )
    yield Case(
        "a register twice",
        "%a, %b = loop $i = 0 until 2 carry %p = @x, %q = @y {\n  %s = add %p, %q\n"
        "  yield %s, %s\n}\n@r = add %a, %b",
        {"x": tensor("f32", [1.0]), "y": tensor("f32", [2.0])},
    )


CALL_FUNCTIONS = """
.func axpy(%x f32[2], %y f32[2], $a f32) -> (f32[2], f32) {
  %p = mul %x, $a
  %r = add %p, %y
  return %r, $a
}

.func halve(%w! f32[2]) {
  %w = mul %w, 0.5
  return
}

.func halve_twice(%w! f32[2]) {
  call halve(%w)
  call halve(%w)
}

.func count(%n! i64[]) -> (i64) {
  %m = add %n, 1
  %n = copy %m
  $v = load %n, at=[]
  return $v
}
"""


def call_cases():
    yield Case(
        "arguments and results",
        "%r, $s = call axpy(@x, @y, $a)\n@r = copy %r\nstore! @s, $s, at=[]",
        {"x": tensor("f32", [1.0, 2.0]), "y": tensor("f32", [0.25, 0.5])},
        scalars={"a": ("f32", 3.0)},
        outputs={"r": ("f32", (2,)), "s": ("f32", ())},
        functions=CALL_FUNCTIONS,
    )
    yield Case(
        "an immediate has the type of the parameter",
        "@r, $s = call axpy(@x, @y, 2)\nstore! @s, $s, at=[]",
        {"x": tensor("f32", [1.0, 2.0]), "y": tensor("f32", [0.25, 0.5])},
        outputs={"r": ("f32", (2,)), "s": ("f32", ())},
        functions=CALL_FUNCTIONS,
    )
    yield Case(
        "in place, and handed on",
        "call halve_twice(@w)",
        {},
        {"w": tensor("f32", [8.0, -1.0])},
        functions=CALL_FUNCTIONS,
    )
    yield Case(
        "what a call changes is seen after it",
        "$a = call count(@n)\n$b = call count(@n)\n$c = mul $a, 10\n"
        "$d = add $c, $b\nstore! @r, $d, at=[]",
        {},
        counter(),
        outputs={"r": ("i64", ())},
        functions=CALL_FUNCTIONS,
    )


RETURN_FUNCTIONS = """
.func constants() -> (i64, f32, f64, bool) {
  return 3, 4, 0.1, true
}

.func its_parameter(%x f32[2], $n i64) -> (i64, f32[2], f32[2]) {
  return $n, %x, %x
}
"""


def return_cases():
    yield Case(
        "immediates have the types of the results",
        "$a, $b, $c, $d = call constants()\n"
        + "\n".join(f"store! @{n}, ${n}, at=[]" for n in "abcd"),
        outputs={n: (t, ()) for n, t in zip("abcd", ("i64", "f32", "f64", "bool"))},
        functions=RETURN_FUNCTIONS,
    )
    yield Case(
        "parameters, one of them twice",
        "$a, %b, %c = call its_parameter(@x, 5)\n@r = add %b, %c\n" "store! @s, $a, at=[]",
        {"x": tensor("f32", [1.0, 2.0])},
        outputs={"r": ("f32", (2,)), "s": ("i64", ())},
        functions=RETURN_FUNCTIONS,
    )


def load_cases():
    for dtype in ALL:
        numbers = special_numbers(dtype)
        kind = scalar_type(dtype)
        lines = [
            f"$v{letter} = load @x, at=[{i}]\nstore! @r, $v{letter}, at=[{i}]"
            for i, letter in enumerate("abcdefghijklmn"[: len(numbers)])
        ]
        yield Case(
            f"{dtype} as {kind}",
            "\n".join(lines),
            {"x": tensor(dtype, numbers)},
            outputs={"r": (kind, (len(numbers),))},
        )
    yield Case(
        "a computed place; rank 0",
        "$v = load @x, at=[1,$i]\nstore! @r, $v, at=[]\n$w = load @y, at=[]\n"
        "store! @q, $w, at=[]",
        {"x": tensor("i8", [[1, 2], [3, 4]]), "y": tensor("u16", 65535, ())},
        scalars={"i": ("i64", 0)},
        outputs={"r": ("i64", ()), "q": ("i64", ())},
    )
    for title, at in (("beyond the end", 2), ("before the beginning", -1)):
        yield Case(
            title,
            "$v = load @x, at=[$i]",
            {"x": tensor("f32", [1, 2])},
            scalars={"i": ("i64", at)},
            trap="index-out-of-range",
        )


def store_cases():
    for dtype in ALL:
        kind = scalar_type(dtype)
        numbers = {"bool": [True, False], "i64": [300, -1]}.get(kind, [1 / 3, 1e6])
        initial = Value(dtype, [from_number(dtype, 1)] * 4)
        immediates = {"bool": "true", "i64": "77"}.get(kind, "-2.5")
        yield Case(
            f"{dtype} from {kind}",
            f"store! @x, $a, at=[0]\nstore! @x, $b, at=[2]\nstore! @x, {immediates}, at=[3]",
            {},
            {"x": initial},
            {n: (kind, v) for n, v in zip("ab", numbers)},
        )
    yield Case(
        "a computed place; rank 0",
        "store! @x, 9, at=[$i,1]\nstore! @y, 8, at=[]",
        {},
        {"x": tensor("i32", [[1, 2], [3, 4]]), "y": tensor("i32", 0, ())},
        {"i": ("i64", 1)},
    )
    yield Case(
        "beyond the end",
        "store! @x, 9, at=[$i]",
        {},
        {"x": tensor("i32", [1, 2])},
        {"i": ("i64", 2)},
        trap="index-out-of-range",
    )


def assert_finite_cases():
    for dtype in REALS:
        finite = [n for n in special_numbers(dtype) if n == n and abs(n) != float("inf")]
        yield Case(
            f"{dtype}, finite",
            "assert_finite @x\n@n = add @n, 1",
            {"x": tensor(dtype, finite)},
            counter(),
        )
        for n in ("inf", "-inf", "nan"):
            yield Case(
                f"{dtype}, {n}",
                "assert_finite @x",
                {"x": tensor(dtype, [*finite, float(n)])},
                trap="not-finite",
            )
    yield Case(
        "nothing; a scalar",
        "assert_finite @x\nassert_finite $s\n@n = add @n, 1",
        {"x": tensor("f32", [], (0,))},
        counter(),
        {"s": ("f32", 1.0)},
    )
    yield Case(
        "a scalar that is not",
        "assert_finite $s",
        scalars={"s": ("f64", float("nan"))},
        trap="not-finite",
    )


def trap_cases():
    yield Case("stops the program", 'trap "on purpose"', trap="explicit")
    yield Case(
        "not where it is not reached",
        'if $c {\n  trap "no"\n}\n@n = add @n, 1',
        {},
        counter(),
        {"c": ("bool", False)},
    )
    yield Case(
        "the earliest in program order",
        'store! @n, $v, at=[]\nassert_finite $s\ntrap "no"',
        {},
        counter(),
        {"v": ("i64", 1), "s": ("f32", float("inf"))},
        trap="not-finite",
    )


def emit_cases():
    yield Case(
        "tensors, scalars, immediates",
        'emit "x", @x\nemit "a", $a\nemit "b", 0.5\nemit "x", @x\n' "@n = add @n, 1",
        {"x": tensor("f16", [1.0, 2.0])},
        counter(),
        {"a": ("i64", 5)},
    )


def next_cases():
    for dtype in ALL:
        yield Case(
            f"{dtype}: a stream that has ended gives zeros and false",
            "%b, $more = next @s\n@r = copy %b\nstore! @m, $more, at=[]",
            outputs={"r": (dtype, (2,)), "m": ("bool", ())},
            streams={"s": zeros(dtype, (0, 2))},
        )


CASES = {
    "loop": loop_cases,
    "while": while_cases,
    "if": if_cases,
    "test": test_cases,
    "else": else_cases,
    "yield": yield_cases,
    "call": call_cases,
    "return": return_cases,
    "load": load_cases,
    "store": store_cases,
    "assert_finite": assert_finite_cases,
    "trap": trap_cases,
    "emit": emit_cases,
    "next": next_cases,
}


def cases_of(row):
    return list(CASES[row.mnemonic]())
