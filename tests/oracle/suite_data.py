"""Random operands for the suite."""

import numpy as np

from trek_oracle.cases import random_tensor, special_numbers, tensor
from trek_oracle.elements import INTS, STORAGE, Value


class Draw:
    """Random operands of one element type."""

    def __init__(self, rng, dtype=None):
        self.rng = rng
        self.dtype = dtype

    def plain(self, *shape, dtype=None):
        return random_tensor(self.rng, dtype or self.dtype, shape)

    def bits(self, *shape, dtype=None):
        return random_tensor(self.rng, dtype or self.dtype, shape, "bits")

    def mixed(self, *shape, dtype=None):
        """Plain elements, one in eight any bits or something special."""
        dtype = dtype or self.dtype
        value = random_tensor(self.rng, dtype, shape)
        chosen = self.rng.random(shape)
        specials = tensor(dtype, special_numbers(dtype)).data
        data = np.where(
            chosen < 0.05, random_tensor(self.rng, dtype, shape, "bits").data, value.data
        )
        picked = specials[self.rng.integers(0, len(specials), shape)]
        return Value(dtype, np.where(chosen > 0.93, picked, data).astype(STORAGE[dtype]))

    def index(self, u, limit, *shape):
        limit = min(limit, int(np.iinfo(STORAGE[u]).max))
        return Value(u, self.rng.integers(0, limit, shape).astype(STORAGE[u]))

    def index_type(self):
        return INTS[self.rng.integers(0, len(INTS))]

    def every_pattern(self):
        """All patterns of a 16-bit type."""
        return Value(self.dtype, np.arange(65536).astype(np.uint16).view(STORAGE[self.dtype]))

    def number(self):
        return f"{self.rng.standard_normal():.4f}"
