"""The oracle's instructions: one function per mnemonic, and how one is executed.

A function gets a Call: the operands as Values of the types that its signature says, the attributes,
and T and C as `dtype` and `compute`. It returns its results as Values (one, a tuple, or None); an
instruction that changes operands in place returns their new values, for the operands at the
positions `inplace`.

A signature is a word per operand: T (the element type; scalars and immediates beside tensors become
it), U (an index type), C, bool, any; `*` after the last makes it variadic.
"""

import numpy as np

from .elements import Value, cast, compute_type, from_number, is_real

INSTRUCTIONS = {}  # mnemonic -> Instruction


class Trap(Exception):
    """A guest fault: its name, and the row-major index of the offending element or -1."""

    def __init__(self, name, element=-1):
        super().__init__(f"{name} at element {element}")
        self.name = name
        self.element = element


class Instruction:
    def __init__(self, mnemonic, function, signature, inplace):
        self.mnemonic = mnemonic
        self.function = function
        self.signature = signature.split()
        self.inplace = inplace

    def rule(self, position):
        last = self.signature[-1] if self.signature else "any"
        if position >= len(self.signature) or (
            last.endswith("*") and position == len(self.signature) - 1
        ):
            return last.rstrip("*")
        return self.signature[position]


def instruction(mnemonic, signature="", inplace=()):
    def register(function):
        INSTRUCTIONS[mnemonic] = Instruction(mnemonic, function, signature, inplace)
        return function

    return register


class Call:
    """An instruction being executed."""

    def __init__(self, mnemonic, operands, dtype, attributes, seed):
        self.mnemonic = mnemonic
        self.operands = operands
        self.dtype = dtype
        self.compute = compute_type(dtype) if dtype else None
        self.attributes = attributes
        self.seed = seed

    @property
    def is_scalar(self):
        return all(x.scalar for x in self.operands)

    def has(self, name):
        return name in self.attributes

    flag = has

    def integer(self, name, default=None):
        """An integer, static or from a scalar register."""
        value = self.attributes.get(name, default)
        return int(value.data) if isinstance(value, Value) else int(value)

    def integers(self, name, default=None):
        items = self.attributes.get(name, default)
        if items is None:
            return None
        items = items if isinstance(items, list) else [items]
        return [int(i.data) if isinstance(i, Value) else int(i) for i in items]

    def number(self, name, dtype, default=None):
        """A number of a type, as a numpy scalar of storage."""
        value = self.attributes.get(name, default)
        if isinstance(value, Value):
            return value.data[()]
        return from_number(dtype, value)

    def real(self, name, default=None):
        """A number of type C."""
        return self.number(name, self.compute, default)

    def choice(self, name, first):
        return self.attributes.get(name, first)

    def axis(self, default, rank=None):
        rank = len(self.operands[0].shape) if rank is None else rank
        return self.integer("axis", default) % max(rank, 1)

    def result(self, data, dtype=None):
        """A result of a pointwise instruction: a scalar if all operands are."""
        return Value(dtype or self.dtype, data, self.is_scalar)


def written_type(number):
    """The type of an immediate that nothing else gives one: as it is written."""
    if isinstance(number, bool):
        return "bool"
    return "i64" if isinstance(number, int) else "f32"


def element_type(entry, operands, attributes):
    """T: of tensors, then of scalar registers, then of immediates, then `to`."""
    candidates = [x for i, x in enumerate(operands) if x is not None and entry.rule(i) == "T"]
    values = [x for x in candidates if isinstance(x, Value)]
    for found in [x for x in values if not x.scalar] + values:
        return found.dtype
    if candidates:
        return written_type(candidates[0])
    return attributes.get("to")


def typed(operand, rule, dtype, beside_tensor):
    """An operand as a Value of the type that its rule wants."""
    wanted = {"T": dtype, "C": compute_type(dtype) if dtype else None, "bool": "bool"}.get(rule)
    if not isinstance(operand, Value):
        wanted = wanted or written_type(operand)
        return Value(wanted, from_number(wanted, operand), scalar=True)
    if rule == "T" and operand.scalar and beside_tensor:
        return Value(dtype, cast(operand, dtype), scalar=True)
    if wanted and operand.dtype != wanted:
        raise ValueError(f"an operand is {operand.type_text()} where {wanted} is wanted")
    return operand


def execute(mnemonic, operands, attributes, seed=0):
    """The results of an instruction as a list of Values, or a Trap is raised.

    Operands are Values or, for immediates, numbers of Python. Attributes are numbers, lists, words,
    True for a flag, and Values for scalar registers.
    """
    entry = INSTRUCTIONS[mnemonic]
    dtype = element_type(entry, operands, attributes)
    beside_tensor = any(isinstance(x, Value) and not x.scalar for x in operands)
    values = [typed(x, entry.rule(i), dtype, beside_tensor) for i, x in enumerate(operands)]
    call = Call(mnemonic, values, dtype, attributes, seed)
    with np.errstate(all="ignore"):
        results = entry.function(call, *values)
    if results is None:
        return []
    return list(results) if isinstance(results, (tuple, list)) else [results]


def as_real(array, dtype):
    """A number or array as the compute type of a float type."""
    assert is_real(dtype)
    return np.asarray(array).astype(np.float64 if dtype == "f64" else np.float32)
