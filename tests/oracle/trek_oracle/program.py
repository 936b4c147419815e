"""Executes a module (text.py) with the oracle's instructions, statement by statement."""

import gzip
import re
from dataclasses import dataclass, field

import numpy as np
import xxhash

from . import (
    loss,
    matrix,
    move,
    optimizer,
    pointwise,
    random_numbers,
    reduce,
)  # noqa: F401 (they register)
from .elements import STORAGE, Value, canonical_bits, from_number, scalar_type, zeros
from .instructions import INSTRUCTIONS, Trap, execute, written_type
from .text import Name, Type, evaluate, parse_data, split_commas

# Executed here and not by a function of an instruction: they change what is executed next.
CONTROL = {"loop", "while", "test", "if", "else", "yield", "call", "return", "emit"}
# Attributes of an initialiser that may be given by place.
POSITIONAL = {"normal": ["mean", "std"], "uniform": ["low", "high"], "bernoulli": ["p"]}


# A tensor's bytes in a file: idx("images.gz"), npy(...), raw(...), also after `extern`.
FILE = re.compile(r'(?:extern )?(idx|npy|raw)\("([^"]*)"\)')


@dataclass
class Outcome:
    tensors: dict
    emitted: list = field(default_factory=list)
    trap: Trap = None
    line: int = 0  # of the trap


class Leave(Exception):
    """A `test` that failed, or a `return`."""

    def __init__(self, values=None):
        self.values = values


def immediate(number, dtype=None):
    if isinstance(number, Value):
        return number
    dtype = dtype or written_type(number)
    return Value(dtype, from_number(dtype, number), scalar=True)


def read_file(source, type_):
    """The elements of a file in row-major order, under the shape of the type."""
    form, path = FILE.match(source).groups()
    if form == "npy":
        return Value(type_.dtype, np.load(path).reshape(type_.shape))
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        data = file.read()
    if form == "idx":  # two zero bytes, the type, the rank, then the dimensions in four bytes each
        data = data[4 + 4 * data[3] :]
    return Value(type_.dtype, np.frombuffer(data, STORAGE[type_.dtype]).reshape(type_.shape))


def digest(value):
    """As `trek-run --digest`: the hash of the bytes, all NaNs made one."""
    return xxhash.xxh3_128_hexdigest(canonical_bits(value.dtype, value.data).tobytes())


class Program:
    """A module with its memory. `streams` gives each stream's blocks as a list of Values."""

    def __init__(self, module, given=None, streams=None, seed=0):
        self.module = module
        self.seed = seed
        self.streams = {name: list(blocks) for name, blocks in (streams or {}).items()}
        self.emitted = []
        self.params = {
            name: immediate(number, dtype) for name, (dtype, number) in module.params.items()
        }
        if seed not in module.initial:
            module.initial[seed] = {t.name: self.initial(t) for t in module.tensors.values()}
        self.tensors = dict(module.initial[seed])
        for name, value in (given or {}).items():
            (self.params if name in self.params else self.tensors)[name] = value
        self.line = 0

    def initial(self, tensor):
        type_ = tensor.type
        if tensor.source is None:
            return zeros(type_.dtype, type_.shape)
        if FILE.match(tensor.source):
            return read_file(tensor.source, type_)
        match = re.fullmatch(r"(\w+)\((.*)\)", tensor.source)
        if match is None or match[1] not in INSTRUCTIONS:
            return parse_data(tensor.source, type_, self.module.constants)
        attributes = {"to": type_.dtype, "shape": list(type_.shape), "n": int(np.prod(type_.shape))}
        names = iter(POSITIONAL.get(match[1], []))
        for part in split_commas(match[2]):
            named = re.match(r"(\w+)\s*=\s*(.*)", part)
            name, text = (named[1], named[2]) if named else (next(names), part)
            attributes[name] = evaluate(text, self.module.constants)
        return execute(match[1], [], attributes, self.seed)[0]

    def run(self):
        outcome = Outcome(self.tensors, self.emitted)
        try:
            self.call(self.module.functions["main"], [])
        except Trap as trap:
            outcome.trap, outcome.line = trap, self.line
        return outcome

    def call(self, function, arguments):
        """The results of a function; an argument for an in-place parameter is a tensor's Name."""
        registers = {}
        for (name, type_, _), argument in zip(function.parameters, arguments):
            registers[name] = (
                argument if isinstance(argument, Name) else self.of_type(argument, type_.dtype)
            )
        try:
            self.execute_all(function.body, registers)
        except Leave as leave:
            return [self.of_type(v, t.dtype) for v, t in zip(leave.values, function.results)]
        return []

    @staticmethod
    def of_type(value, dtype):
        return value if isinstance(value, Value) else immediate(value, dtype)

    def execute_all(self, body, registers):
        """The operands of the `yield` that ends a region, or none."""
        for statement in body:
            self.line = statement.line
            if statement.mnemonic == "yield":
                return [self.read(x, registers) for x in statement.operands]
            self.execute(statement, registers)
        return []

    # ---- registers and memory --------------------------------------------------------------------

    def place(self, name, registers):
        """The Name of the module tensor that an in-place parameter stands for."""
        while isinstance(registers.get(name.text), Name):
            name = registers[name.text]
        return name

    def read(self, x, registers):
        """A Value, or the number of an immediate."""
        if not isinstance(x, Name):
            return x
        name = self.place(x, registers).text
        if name[0] == "@":
            return self.tensors[name[1:]]
        return registers[name] if name in registers else self.params[name[1:]]

    def write(self, target, value, registers):
        name = self.place(Name(target), registers).text
        if name[0] != "@":
            registers[name] = value
            return
        old = self.tensors.get(
            name[1:], value
        )  # what is not declared is what cases.py wants to know
        assert (old.dtype, old.shape) == (
            value.dtype,
            value.shape,
        ), f"{name}: {old.type_text()} {value.type_text()}"
        self.tensors[name[1:]] = value

    # ---- statements ------------------------------------------------------------------------------

    def execute(self, statement, registers):
        if statement.mnemonic in CONTROL:
            results = getattr(self, "execute_" + statement.mnemonic)(statement, registers) or []
        else:
            results = self.execute_instruction(statement, registers)
        for target, value in zip(statement.results, results):
            self.write(target, immediate(value), registers)

    def execute_instruction(self, statement, registers):
        operands = [self.read(x, registers) for x in statement.operands]
        attributes = {
            name: self.attribute(x, registers) for name, x in statement.attributes.items()
        }
        if statement.mnemonic == "next" and self.streams.get(statement.operands[0].text[1:]):
            return [self.streams[statement.operands[0].text[1:]].pop(0), immediate(True)]
        if statement.mnemonic == "fill" and not isinstance(operands[0], Value):
            return [move.fill_immediate(operands[0], attributes["to"], attributes["shape"])]
        if statement.mnemonic == "store" and not isinstance(operands[1], Value):
            operands[1] = immediate(operands[1], scalar_type(operands[0].dtype))
        results = execute(statement.mnemonic, operands, attributes, self.seed)
        if not statement.in_place:
            return results
        for position, value in zip(INSTRUCTIONS[statement.mnemonic].inplace or (0,), results):
            self.write(statement.operands[position].text, value, registers)
        return []

    def attribute(self, x, registers):
        if isinstance(x, list):
            return [self.read(item, registers) for item in x]
        return self.read(x, registers)

    def execute_loop(self, statement, registers):
        first, until, step = (
            int(immediate(self.read(x, registers)).data) for x in statement.operands
        )
        if step == 0:
            raise Trap("invalid-argument")
        carried = self.carried(statement, registers)
        for counter in range(first, until, step):
            registers[statement.attributes["counter"]] = immediate(counter, "i64")
            carried = self.trip(statement, carried, registers)
        return carried

    def execute_while(self, statement, registers):
        carried = self.carried(statement, registers)
        while True:
            try:
                carried = self.trip(statement, carried, registers)
            except Leave as leave:
                if leave.values is None:
                    return carried
                raise

    def carried(self, statement, registers):
        return [immediate(self.read(x, registers)) for _, x in statement.attributes["carry"]]

    def trip(self, statement, carried, registers):
        for (name, _), value in zip(statement.attributes["carry"], carried):
            registers[name] = value
        results = self.execute_all(statement.block, registers)
        return [self.of_type(v, old.dtype) for v, old in zip(results, carried)]

    def execute_test(self, statement, registers):
        if not immediate(self.read(statement.operands[0], registers)).data:
            raise Leave()

    def execute_if(self, statement, registers):
        if immediate(self.read(statement.operands[0], registers)).data:
            return self.execute_all(statement.block, registers)
        if statement.other is None:
            return []
        results = self.execute_all(statement.other, registers)
        # In the second region immediates have the types that the first gave.
        return [immediate(v, t) for v, t in zip(results, self.first_types(statement, registers))]

    def first_types(self, statement, registers):
        for x in statement.block[-1].operands:
            yield None if isinstance(x, Name) else immediate(x).dtype

    def execute_call(self, statement, registers):
        function = self.module.functions[statement.attributes["function"]]
        arguments = [
            self.place(x, registers) if in_place else self.read(x, registers)
            for x, (_, _, in_place) in zip(statement.operands, function.parameters)
        ]
        line = self.line
        results = self.call(function, arguments)
        self.line = line
        return results

    def execute_return(self, statement, registers):
        raise Leave([self.read(x, registers) for x in statement.operands])

    def execute_emit(self, statement, registers):
        self.emitted.append(
            (statement.attributes["name"], immediate(self.read(statement.operands[0], registers)))
        )


def bind(module, given):
    """Bindings of a test, (name with sigil, text), as Values."""
    values = {}
    for name, text in given:
        if name[0] == "$":
            dtype = module.params[name[1:]][0]
            values[name[1:]] = parse_data(text, Type(dtype), module.constants)
            values[name[1:]].scalar = True
        else:
            values[name[1:]] = parse_data(text, module.tensors[name[1:]].type, module.constants)
    return values
