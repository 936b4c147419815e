"""The cases of the suite: each instruction in each element type, many shapes, random data."""

import numpy as np

from suite_data import Draw
from suite_elements import move, pointwise
from suite_orders import loss, matmul, reduce
from suite_steps import control, optimizer, random

FAMILIES = {
    "move": move,
    "pointwise": pointwise,
    "reduce": reduce,
    "matrix": matmul,
    "loss": loss,
    "optimizer": optimizer,
    "random": random,
    "control": control,
}


def cases_of(row, dtype, seed):
    """The cases of an instruction in an element type (or none, where it has no T)."""
    rng = np.random.default_rng([seed, *row.mnemonic.encode(), *(dtype or "").encode()])
    return list(FAMILIES[row.family](row, Draw(rng, dtype)))
