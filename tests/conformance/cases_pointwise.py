"""Conformance cases of the pointwise family: special values in every type, shapes, scalars."""

import numpy as np

from trek_oracle.cases import Case, special_numbers, tensor
from trek_oracle.elements import STORAGE, is_integer, is_real

# What a function of one number may do something particular at, beside the special numbers.
PLACES = [0.5, -0.5, 3.0, -3.0, 10.0, -20.0, 90.0, -100.0, 0.001, 1.5, 2.5, 1e4]
PARAMETERS = {
    "leaky_relu": ["", ", slope=0.25", ", slope=0.0"],
    "elu": ["", ", alpha=0.5"],
    "leaky_relu.grad": ["", ", slope=0.25"],
    "elu.grad": ["", ", alpha=0.5"],
}


def shift_counts(dtype):
    """Around the width of the type, and such as are far beyond it when read as unsigned."""
    width = 8 * STORAGE[dtype]().itemsize
    far = -1 if dtype[0] == "i" else 2**width - 1
    return [0, 1, 3, width - 1, width, width + 1 if width < 64 else 100, far, 5]


def attribute_variants(mnemonic, dtype):
    if mnemonic.startswith("clamp"):
        if is_real(dtype):
            return [", low=-1.0, high=0.75", ", low=1.0, high=-1.0", ", low=-0.0, high=inf"]
        return [", low=1, high=7", ", low=7, high=2"]
    return PARAMETERS.get(mnemonic, [""])


def unary_by_type(row):
    for dtype in row.dtypes:
        numbers = special_numbers(dtype)
        if is_real(dtype) and row.mnemonic not in ("neg", "abs", "sign"):
            numbers = numbers + PLACES
        for attributes in attribute_variants(row.mnemonic, dtype):
            yield Case(
                f"{dtype}{attributes}",
                f"@r = {row.mnemonic} @x{attributes}",
                {"x": tensor(dtype, numbers)},
            )


def paired(dtype, numbers, shift, divides):
    """The numbers, and the same moved along, without zeros where they divide."""
    others = numbers[shift:] + numbers[:shift]
    if divides and is_integer(dtype):
        others = [n if n != 0 else 3 for n in others]
    return tensor(dtype, numbers), tensor(dtype, others)


def binary_by_type(row, names):
    divides = row.mnemonic in ("div", "mod")
    for dtype in row.dtypes:
        numbers = special_numbers(dtype)
        for attributes in attribute_variants(row.mnemonic, dtype):
            statement = f"@r = {row.mnemonic} @{names[0]}, @{names[1]}{attributes}"
            if dtype in ("f32", "i8", "bool"):  # each with each
                x, y = paired(dtype, numbers, 0, divides)
                x.data = x.data.reshape(-1, 1)
                yield Case(
                    f"{dtype}{attributes}, each with each", statement, {names[0]: x, names[1]: y}
                )
            else:
                x, y = paired(dtype, numbers, 3, divides)
                yield Case(f"{dtype}{attributes}", statement, {names[0]: x, names[1]: y})


def shifts(row):
    for dtype in row.dtypes:
        x, y = tensor(dtype, [[n] for n in special_numbers(dtype)]), tensor(
            dtype, shift_counts(dtype)
        )
        yield Case(f"{dtype}, each by each", f"@r = {row.mnemonic} @x, @y", {"x": x, "y": y})


def first_real(row):
    return next(d for d in ("f32", "i32", "bool") if d in row.dtypes)


def some(dtype, shape):
    """Small numbers, none of them 0."""
    n = int(np.prod(shape, dtype=np.int64))
    if dtype == "bool":
        return tensor(dtype, [i % 3 == 0 for i in range(n)], shape)
    if dtype in ("u8", "u16", "u32", "u64"):
        return tensor(dtype, [i % 5 + 1 for i in range(n)], shape)
    return tensor(
        dtype,
        [(i % 5 + 1) * (-1) ** (i // 3) * (0.5 if is_real(dtype) else 1) for i in range(n)],
        shape,
    )


def shapes(row, count, names):
    """Nothing, one element, an odd number, rank 0; operands that broadcast."""
    dtype = first_real(row)
    attributes = attribute_variants(row.mnemonic, dtype)[0]
    for title, many in [
        ("nothing", [(0,)] * count),
        ("one element", [(1, 1)] * count),
        ("rank 0", [()] * count),
        ("an odd number", [(3, 11)] * count),
        ("broadcast", [(2, 1, 3), (4, 1), (3,)][:count]),
        ("broadcast of nothing", [(0, 3), (1,), (1, 1)][:count]),
    ]:
        if count == 1 and title.startswith("broadcast"):
            continue
        operands = ", ".join("@" + n for n in names)
        yield Case(
            title,
            f"@r = {row.mnemonic} {operands}{attributes}",
            {n: some(dtype, shape) for n, shape in zip(names, many)},
        )


def scalars(row, count, names):
    """Scalar instructions; scalars and immediates beside tensors."""
    compares = row.mnemonic in ("eq", "ne", "lt", "le", "gt", "ge")
    for dtype in [d for d in ("f32", "f64", "i64", "bool") if d in row.dtypes]:
        attributes = attribute_variants(row.mnemonic, dtype)[0]
        plain = {"bool": [True, False, True], "i64": [9, 2, 4]}.get(dtype, [1.75, 0.5, -3.0])
        given = {n: (dtype, v) for n, v in zip(names, plain)}
        operands = ", ".join("$" + n for n in names)
        yield Case(
            f"scalars of {dtype}",
            f"$t = {row.mnemonic} {operands}{attributes}\nstore! @r, $t, at=[]",
            scalars=given,
            outputs={"r": ("bool" if compares else dtype, ())},
        )
    if count < 2:
        return
    for dtype in [d for d in ("f16", "f64", "u8", "bool") if d in row.dtypes]:
        attributes = attribute_variants(row.mnemonic, dtype)[0]
        number, kind = {"bool": (True, "bool"), "u8": (300, "i64"), "f64": (0.3, "f64")}.get(
            dtype, (0.3, "f32")
        )
        last = {"bool": "false", "u8": "3"}.get(dtype, "0.3")
        others = "".join(f", @{n}" for n in names[2:])
        yield Case(
            f"a scalar and an immediate beside a tensor of {dtype}",
            f"@r = {row.mnemonic} @{names[0]}, $s{others}{attributes}\n"
            f"@q = {row.mnemonic} @{names[0]}, {last}{others}{attributes}",
            {names[0]: some(dtype, (5,)), **{n: some(dtype, (5,)) for n in names[2:]}},
            scalars={"s": (kind, number)},
            outputs={n: ("bool" if compares else dtype, (5,)) for n in ("r", "q")},
        )


def in_place(row, names):
    """A destination may be an operand's memory, element by element."""
    dtype = first_real(row)
    if row.mnemonic in ("eq", "ne", "lt", "le", "gt", "ge") and dtype != "bool":
        return
    attributes = attribute_variants(row.mnemonic, dtype)[0]
    operands = ", ".join("@" + n for n in names)
    yield Case(
        "written over an operand",
        f"@{names[0]} = {row.mnemonic} {operands}{attributes}",
        {n: some(dtype, (7,)) for n in names[1:]},
        {names[0]: some(dtype, (7,))},
    )


def integer_traps(row):
    for dtype in ("i8", "u64"):
        yield Case(
            f"{dtype} by zero",
            f"@r = {row.mnemonic} @x, @y",
            {"x": tensor(dtype, [1, 2, 3]), "y": tensor(dtype, [1, 0, 0])},
            outputs={"r": (dtype, (3,))},
            trap="divide-by-zero",
        )
    yield Case(
        "a scalar by zero",
        f"$t = {row.mnemonic} $a, $b",
        scalars={"a": ("i64", 7), "b": ("i64", 0)},
        trap="divide-by-zero",
    )


# fma rounds once: a product and a sum that two roundings would get wrong.
def fused(row):
    for dtype, eps in (("f32", 2.0**-23), ("f64", 2.0**-52), ("f16", 2.0**-10)):
        a, b, c = [1 + eps, 1 + eps, 3.0], [1 - eps, 1 + eps, 1 / 3], [-1.0, -1 - 2 * eps, -1.0]
        yield Case(
            f"{dtype}: one rounding",
            "@r = fma @x, @y, @z",
            {n: tensor(dtype, v) for n, v in zip("xyz", (a, b, c))},
        )
    for dtype in row.dtypes:
        numbers = special_numbers(dtype)
        yield Case(
            dtype,
            "@r = fma @x, @y, @z",
            {n: tensor(dtype, numbers[s:] + numbers[:s]) for n, s in zip("xyz", (0, 3, 7))},
        )


OPERANDS = {
    "abs.grad": "x",
    "exp.grad": "y",
    "log.grad": "x",
    "sqrt.grad": "y",
    "rsqrt.grad": "y",
    "tanh.grad": "y",
    "sigmoid.grad": "y",
    "relu.grad": "y",
}
BINARY = ("add sub mul div mod maximum minimum pow eq ne lt le gt ge and or xor").split()


def cases_of(row):
    if row.mnemonic == "fma":
        names, by_type = ["x", "y", "z"], fused(row)
    elif row.mnemonic in ("shl", "shr"):
        names, by_type = ["x", "y"], shifts(row)
    elif row.mnemonic in BINARY:
        names, by_type = ["x", "y"], binary_by_type(row, ["x", "y"])
    elif row.mnemonic.endswith(".grad"):
        names = ["d", OPERANDS.get(row.mnemonic, "x")]
        by_type = binary_by_type(row, names)
    else:
        names, by_type = ["x"], unary_by_type(row)
    cases = [
        *by_type,
        *shapes(row, len(names), names),
        *scalars(row, len(names), names),
        *in_place(row, names),
    ]
    if row.mnemonic in ("div", "mod"):
        cases += integer_traps(row)
    return cases
