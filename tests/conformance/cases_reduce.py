"""Conformance cases of reductions and orders."""

import numpy as np

from trek_oracle.cases import Case, special_numbers, tensor
from trek_oracle.elements import INTS, is_real

EMPTY_HAS_VALUE = ("sum", "mean", "prod", "norm2")


def thirds(dtype, shape):
    """Numbers whose sums depend on the order: thirds of growing size and changing sign."""
    n = int(np.prod(shape, dtype=np.int64))
    if dtype == "bool":
        return tensor(dtype, [i % 7 == 3 for i in range(n)], shape)
    if is_real(dtype):
        return tensor(dtype, [(-1) ** (i // 2) * (1 + i % 13) / 3 for i in range(n)], shape)
    return tensor(dtype, [(i * 7 + 3) % 23 for i in range(n)], shape)


def reductions(row):
    m = row.mnemonic
    for dtype in row.dtypes:
        yield Case(
            f"{dtype}: axis 0, axis 1, both, and all",
            f"@a = {m} @x, axis=0\n@b = {m} @x, axis=1\n"
            f"@c = {m} @x, axis=[0,1], keep\n@d = {m} @x",
            {"x": thirds(dtype, (3, 5))},
        )
        yield Case(
            f"{dtype}: special values", f"@r = {m} @x, axis=1", {"x": pairs_of_specials(dtype)}
        )
    yield Case(
        "axes from the end, kept",
        f"@r = {m} @x, axis=[-1,0], keep",
        {"x": thirds("f32", (2, 3, 2))},
    )
    yield Case(
        "one element, rank 0, no axis",
        f"@a = {m} @x\n@b = {m} @y\n@c = {m} @x, axis=[]",
        {"x": thirds("f32", (1,)), "y": thirds("f32", ())},
    )
    yield Case(
        "33 and 70 elements: partials meet",
        f"@a = {m} @x\n@b = {m} @y",
        {"x": thirds("f32", (33,)), "y": thirds("f32", (70,))},
    )
    yield Case(
        "a column of 1030 elements: two tiles",
        f"%c = broadcast @x, shape=[103,10,2]\n" f"@r = {m} %c, axis=[0,1]",
        {"x": thirds("f32", (10, 2))},
    )
    yield Case("no results", f"@r = {m} @x, axis=1", {"x": tensor("f32", [], (0, 3))})
    if m in EMPTY_HAS_VALUE:
        for dtype in row.dtypes[:5]:
            yield Case(
                f"{dtype}: of nothing", f"@r = {m} @x, axis=1", {"x": tensor(dtype, [], (2, 0))}
            )
    if m.startswith("arg"):
        for to in INTS:
            yield Case(f"to {to}", f"@r = {m} @x, to={to}", {"x": thirds("f32", (7,))})


def pairs_of_specials(dtype):
    numbers = special_numbers(dtype)
    return tensor(dtype, [[a, b] for a, b in zip(numbers, numbers[2:] + numbers[:2])])


def zeros_and_nans():
    """Ties: zeros of both signs, NaNs, equal numbers."""
    nan = float("nan")
    return tensor(
        "f32", [[-0.0, 0.0, -0.0, 0.0], [0.0, -0.0, 0.0, -0.0], [1, nan, nan, 2], [2, 1, 2, 1]]
    )


def ties(row):
    yield Case("ties", f"@r = {row.mnemonic} @x, axis=1", {"x": zeros_and_nans()})


def cumsum_cases(row):
    for dtype in row.dtypes:
        yield Case(dtype, "@a = cumsum @x\n@b = cumsum @x, axis=0", {"x": thirds(dtype, (2, 5))})
    yield Case("special values", "@r = cumsum @x, axis=1", {"x": pairs_of_specials("f32")})
    yield Case("70 elements: three blocks", "@r = cumsum @x", {"x": thirds("f32", (70,))})
    yield Case(
        "f16: blocks in f32, rounded at the end", "@r = cumsum @x", {"x": thirds("f16", (40,))}
    )
    yield Case(
        "nothing",
        "@a = cumsum @x, axis=0\n@b = cumsum @x, axis=1",
        {"x": tensor("f32", [], (0, 2))},
    )


def sort_cases(row):
    m = row.mnemonic
    for dtype in row.dtypes:
        numbers = special_numbers(dtype)
        yield Case(
            dtype,
            f"@a = {m} @x\n@b = {m} @x, descending",
            {"x": tensor(dtype, numbers[::-1] + numbers[:4])},
        )
    yield Case(
        "axes",
        f"@a = {m} @x, axis=0\n@b = {m} @x, axis=1, descending",
        {"x": thirds("f32", (3, 4))},
    )
    yield Case("ties", f"@a = {m} @x\n@b = {m} @x, descending", {"x": zeros_and_nans()})
    yield Case(
        "nothing, one element",
        f"@a = {m} @x\n@b = {m} @y",
        {"x": tensor("f32", [], (2, 0)), "y": thirds("f32", (1, 1))},
    )
    if m == "argsort":
        for to in INTS:
            yield Case(f"to {to}", f"@r = argsort @x, to={to}", {"x": thirds("f32", (7,))})


def top_k_cases(row):
    for dtype in row.dtypes:
        numbers = special_numbers(dtype)
        yield Case(
            dtype,
            "@a, @i = top_k @x, k=2\n@b, @j = top_k @x, k=2, smallest",
            {"x": tensor(dtype, numbers[::-1] + numbers[:2])},
        )
    yield Case(
        "axes",
        "@a, @i = top_k @x, k=2, axis=0\n@b, @j = top_k @x, k=4, axis=1",
        {"x": thirds("f32", (3, 4))},
    )
    yield Case(
        "ties", "@a, @i = top_k @x, k=3\n@b, @j = top_k @x, k=3, smallest", {"x": zeros_and_nans()}
    )
    yield Case("k = 0", "@a, @i = top_k @x, k=0", {"x": thirds("f32", (2, 3))})
    for to in INTS:
        yield Case(
            f"indices to {to}", "@a, @i = top_k @x, k=1, to=" + to, {"x": thirds("f32", (7,))}
        )


def cases_of(row):
    if row.mnemonic == "cumsum":
        return list(cumsum_cases(row))
    if row.mnemonic in ("sort", "argsort"):
        return list(sort_cases(row))
    if row.mnemonic == "top_k":
        return list(top_k_cases(row))
    cases = list(reductions(row))
    if row.mnemonic in ("max", "min", "argmax", "argmin"):
        cases += ties(row)
    return cases
