"""Cases: an instruction, its operands, its attributes; and the modules that are written from them.

A Case is a few statements over tensors named without a number, `@r = add @x, @y`. A module holds
many cases, so case 3 becomes `@r_3 = add @x_3, @y_3`. The conformance files (one per instruction,
data in the text, a test per case) and the suite (data in files, all cases in a row) are two ways of
writing them.
"""

import re
import textwrap
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .elements import STORAGE, Value, from_number, is_real, narrow
from .program import Program
from .text import Parser, Tensor, Type, data_text, number_text, parse

WIDTH = 100


@dataclass
class Case:
    title: str
    statements: str
    tensors: dict = field(default_factory=dict)  # read only: name to Value
    states: dict = field(default_factory=dict)  # changed in place
    scalars: dict = field(default_factory=dict)  # params: name to (dtype, number)
    outputs: dict = field(
        default_factory=dict
    )  # name to (dtype, shape), of scalar results and traps
    trap: str = None
    streams: dict = field(default_factory=dict)  # name to all blocks, along a first axis
    functions: str = ""  # text of functions that the statements call

    def __post_init__(self):
        if not self.outputs and not self.trap:
            given = {**self.tensors, **self.states, **self.streams}
            self.outputs = {
                n: (v.dtype, v.shape) for n, v in self.results.items() if n not in given
            }

    @cached_property
    def results(self):
        """Every tensor after the statements, by name, as the oracle has it."""
        module = parse(self.functions)
        module.params = dict(self.scalars)
        given = {**self.tensors, **self.states}
        for name, value in given.items():
            module.tensors[name] = Tensor("input", name, Type(value.dtype, value.shape))
        for name, (dtype, shape) in self.outputs.items():
            module.tensors[name] = Tensor("output", name, Type(dtype, shape))
        for name, blocks in self.streams.items():
            module.tensors[name] = Tensor("stream", name, Type(blocks.dtype, blocks.shape[1:]))
        streams = {n: [Value(b.dtype, block) for block in b.data] for n, b in self.streams.items()}
        program = Program(module, given, streams)
        program.execute_all(Parser(self.statements + "\n}").block(), {})
        return program.tensors

    def numbered(self, number):
        """The statements, every name of a tensor or a register followed by the case's number."""
        return re.sub(r"([@%$]\w+)", rf"\g<1>_{number}", self.statements)


def fold(text, indent):
    """One line, or several of at most WIDTH columns broken after commas."""
    if len(text) <= WIDTH:
        return text
    return "\n".join(
        textwrap.wrap(
            text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    )


def shape_text(shape):
    return "[" + ",".join(str(d) for d in shape) + "]"


def embedded_data(value):
    """` = {...}`, or nothing where there is nothing."""
    return f" = {data_text(value)}" if value.data.size else ""


# ---- a conformance file --------------------------------------------------------------------------


def conformance_text(mnemonic, sentence, cases):
    """An instruction's file: declarations by case, main, a test per case that bless.py fills."""
    lines = [
        f"; {mnemonic}: {sentence}",
        ";",
        "; Written by tests/conformance/generate.py. What is expected comes from the oracle",
        "; (tests/oracle/bless.py), which shares no code with the engines.",
        ".trek 1.0",
        "",
        ".param $case i64 = 0",
        "",
    ]
    for number, case in enumerate(cases, 1):
        lines += declarations(number, case)
    lines += sorted({case.functions.strip() + "\n" for case in cases if case.functions})
    lines += [".func main() {"]
    for number, case in enumerate(cases, 1):
        lines += [
            f"  $is_{number} = eq $case, {number}",
            f"  if $is_{number} {{",
            textwrap.indent(case.numbered(number), "    "),
            "  }",
        ]
    lines += ["}", ""]
    for number, case in enumerate(cases, 1):
        lines += test_block(number, case)
    return "\n".join(lines)


def declarations(number, case):
    lines = [f"; {number}. {case.title}"]
    for role, values in ((".data  ", case.tensors), (".state ", case.states)):
        for name, value in values.items():
            lines.append(
                fold(f"{role} @{name}_{number} {value.type_text()}{embedded_data(value)}", "    ")
            )
    lines += further_declarations(number, case)
    return lines + [""]


def further_declarations(number, case):
    """Streams, parameters, outputs."""
    lines = []
    for name, blocks in case.streams.items():
        lines.append(f".stream @{name}_{number} {blocks.dtype}{shape_text(blocks.shape[1:])}")
    for name, (dtype, scalar) in case.scalars.items():
        lines.append(
            f".param  ${name}_{number} {dtype} = {number_text(dtype, from_number(dtype, scalar))}"
        )
    for name, (dtype, shape) in case.outputs.items():
        lines.append(f".output @{name}_{number} {dtype}{shape_text(shape)}")
    return lines


def test_block(number, case):
    lines = [f'.test "{number}. {case.title}" {{', f"  $case = {number}"]
    if case.trap:
        lines.append(f"  expect trap {case.trap}")
    else:
        lines += [f"  expect @{name}_{number} = {{}}" for name in {**case.outputs, **case.states}]
    return lines + ["}", ""]


# ---- a module of the suite -----------------------------------------------------------------------


def suite_text(cases, folder):
    """The module, and the bytes of its files by path; every case is executed in turn."""
    lines, body, files = [".trek 1.0"], [], {}
    for number, case in enumerate(cases, 1):
        lines.append(f"; {number}. {case.title}")
        for role, values in ((".input", case.tensors), (".state", case.states)):
            for name, value in values.items():
                path = f"{folder}/{name}_{number}.bin"
                files[path] = value.bytes()
                source = f' = extern raw("{path}")' if value.data.size else " = 0"
                lines.append(f"{role} @{name}_{number} {value.type_text()}{source}")
        lines += further_declarations(number, case)
        body.append(case.numbered(number))
    return (
        "\n".join(lines + [".func main() {", textwrap.indent("\n".join(body), "  "), "}", ""]),
        files,
    )


# ---- data ----------------------------------------------------------------------------------------


def tensor(dtype, numbers, shape=None):
    """A tensor of numbers of Python, in row-major order."""
    data = np.array(
        [from_number(dtype, n) for n in np.ravel(np.array(numbers, object))], STORAGE[dtype]
    )
    return Value(dtype, data.reshape(np.shape(numbers) if shape is None else shape))


def greatest(dtype):
    return {
        "f64": 1.7976931348623157e308,
        "f32": 3.4028234663852886e38,
        "f16": 65504.0,
        "bf16": 3.3895313892515355e38,
        "f8e4m3": 448.0,
        "f8e5m2": 57344.0,
    }[dtype]


def least_subnormal(dtype):
    return {
        "f64": 2.0**-1074,
        "f32": 2.0**-149,
        "f16": 2.0**-24,
        "bf16": 2.0**-133,
        "f8e4m3": 2.0**-9,
        "f8e5m2": 2.0**-16,
    }[dtype]


def least_normal(dtype):
    return {
        "f64": 2.0**-1022,
        "f32": 2.0**-126,
        "f16": 2.0**-14,
        "bf16": 2.0**-126,
        "f8e4m3": 2.0**-6,
        "f8e5m2": 2.0**-14,
    }[dtype]


def special_numbers(dtype):
    """What makes trouble: NaN, infinities, zeros, ends of the range, subnormals; a few plain."""
    if dtype == "bool":
        return [False, True]
    if is_real(dtype):
        infinities = [] if dtype == "f8e4m3" else [float("inf"), float("-inf")]
        ends = [greatest(dtype), -greatest(dtype), least_subnormal(dtype), -least_normal(dtype)]
        return [float("nan"), *infinities, 0.0, -0.0, *ends, 1.0, -1.0, 0.75, -2.5]
    limits = np.iinfo(STORAGE[dtype])
    signed = [-1, -7] if limits.min < 0 else []
    return [0, 1, 2, 7, 100, *signed, int(limits.min), int(limits.max), int(limits.max) - 1]


def random_tensor(rng, dtype, shape, kind="plain"):
    """Random elements: `plain` ones of moderate size, or any `bits`."""
    n = int(np.prod(shape, dtype=np.int64))
    if dtype == "bool":
        return Value(dtype, rng.integers(0, 2, shape).astype(np.bool_))
    if kind == "bits" or not is_real(dtype):
        width = STORAGE[dtype]().itemsize
        data = np.frombuffer(rng.bytes(n * width), STORAGE[dtype]).copy()
        if kind != "bits":  # small integers among large ones
            data = np.where(rng.random(n) < 0.5, data, data % STORAGE[dtype](50)).astype(
                STORAGE[dtype]
            )
        return Value(dtype, data.reshape(shape))
    wide = (rng.standard_normal(n) * 2.0).astype(np.float64 if dtype == "f64" else np.float32)
    return Value(dtype, narrow(dtype, wide).reshape(shape))
