"""Suite cases of optimizers, random numbers, streams."""

import numpy as np

from trek_oracle.cases import Case
from trek_oracle.elements import Value, compute_type

STATES = {"sgd": "w", "sgd.momentum": "wv", "adam": "wmv", "adamw": "wmv", "rmsprop": "wv"}
STEPS = {
    "sgd": ["lr=0.1", "lr=0.01, weight_decay=0.1"],
    "sgd.momentum": ["lr=0.1", "lr=0.01, weight_decay=0.1, momentum=0.3", "lr=0.02, nesterov"],
    "adam": [
        "lr=0.001, step=1",
        "lr=0.001, step=12345",
        "lr=0.01, step=9, weight_decay=0.2, beta1=0.8, beta2=0.95, eps=1e-4",
    ],
    "adamw": [
        "lr=0.001, step=1",
        "lr=0.001, step=777777",
        "lr=0.01, step=9, weight_decay=0.0",
        "lr=0.3, step=2, weight_decay=0.3",
    ],
    "rmsprop": ["lr=0.01", "lr=0.01, decay=0.7, eps=0.01, weight_decay=0.1"],
}


def optimizer(row, d):
    m, c = row.mnemonic, compute_type(d.dtype)
    if m == "clip_norm":
        for most in ("0.5", "1e5"):
            yield Case(
                f"max {most}",
                f"@n, @u, @v, @w = clip_norm @x, @y, @z, max={most}",
                {"x": d.plain(1100), "y": d.plain(33, 70), "z": d.plain(3)},
            )
        return
    for attributes in STEPS[m]:
        for shape in ((4099,), (33, 7), (1,)):
            states = {n: d.plain(*shape, dtype=d.dtype if n == "w" else c) for n in STATES[m]}
            if "v" in states and m != "sgd.momentum":
                states["v"] = Value(c, np.abs(states["v"].data))
            yield Case(
                f"{attributes}, {shape}",
                f"{m}! {', '.join('@' + n for n in states)}, @g, {attributes}",
                {"g": d.plain(*shape)},
                states,
            )
    mixed = {n: d.mixed(999, dtype=d.dtype if n == "w" else c) for n in STATES[m]}
    yield Case(
        "mixed",
        f"{m}! {', '.join('@' + n for n in mixed)}, @g, {STEPS[m][0]}",
        {"g": d.mixed(999)},
        mixed,
    )


def random(row, d):
    m = row.mnemonic
    for size in (1, 3, 10_001):
        key, offset = (int(v) for v in d.rng.integers(-(2**63), 2**63 - 1, 2))
        where = f"key={key}, offset={offset}"
        if m in ("uniform", "normal"):
            for more in (
                "",
                ", low=-3.5, high=2.25" if m == "uniform" else ", mean=-3.5, std=2.25",
            ):
                yield Case(f"{size}{more}", f"@r = {m} shape=[{size}], to={d.dtype}, {where}{more}")
        elif m == "bernoulli":
            yield Case(f"{size}", f"@r = bernoulli shape=[{size}], p={d.rng.random():.3f}, {where}")
        elif m == "permutation":
            yield Case(f"{size}", f"@r = permutation n={size}, to={d.index_type()}, {where}")
        elif m == "dropout":
            yield Case(
                f"{size}",
                f"@r, @k = dropout @x, p={d.rng.random() * 0.9:.3f}, {where}",
                {"x": d.mixed(size)},
            )
        else:
            yield Case(
                f"{size}",
                "@r = dropout.grad @x, @k, p=0.3",
                {"x": d.mixed(size), "k": d.plain(size, dtype="bool")},
            )
    if m == "permutation":
        yield Case("100000", "@r = permutation n=100000, key=1")


def control(row, d):
    if row.mnemonic == "next":
        yield Case(
            "three blocks and the end",
            "\n".join(
                f"%b{i}, $m{i} = next @s\n@r{i} = copy %b{i}\nstore! @more, $m{i}, at=[{i}]"
                for i in "0123"
            ),
            outputs={**{f"r{i}": (d.dtype, (5,)) for i in "0123"}, "more": ("bool", (4,))},
            streams={"s": d.bits(3, 5)},
        )
