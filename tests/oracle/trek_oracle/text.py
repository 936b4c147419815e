"""Reads canonical text: the language of assembler/README.md without macros, includes and
conditions.

That is what trek-dis prints and what the generators of these tests write. The reader trusts its
input: it says where it does not understand a line, but it does not look for the errors that trek-as
reports.
"""

import ast
import operator
import re
from dataclasses import dataclass, field

import numpy as np

from .elements import SMALL_FLOATS, STORAGE, Value, decode_small, from_number, is_real

NAMED = {
    "true": True,
    "false": False,
    "inf": float("inf"),
    "nan": float("nan"),
    "pi": 3.141592653589793,
    "e": 2.718281828459045,
}
HEX_FLOAT = re.compile(r"0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?[0-9]+")


class SyntaxProblem(Exception):
    pass


# ---- expressions ---------------------------------------------------------------------------------


def divide(a, b):
    """Of two integers exact or a real."""
    return a // b if isinstance(a, int) and isinstance(b, int) and a % b == 0 else a / b


OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
}


def evaluate(text, constants):
    """A constant expression as a number of Python, or a Value where it says its type: f32(1)."""
    try:
        return int(text)
    except ValueError:
        pass
    plain = HEX_FLOAT.sub(lambda m: repr(float.fromhex(m.group().replace("_", ""))), text)
    try:
        return evaluate_tree(ast.parse(plain.strip(), mode="eval").body, constants)
    except (SyntaxError, KeyError, TypeError) as problem:
        raise SyntaxProblem(f"not a constant expression: {text}") from problem


def evaluate_tree(node, constants):
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return NAMED[node.id] if node.id in NAMED else constants[node.id]
    if isinstance(node, ast.UnaryOp):
        return OPERATORS[type(node.op)](evaluate_tree(node.operand, constants))
    if isinstance(node, ast.BinOp):
        left, right = evaluate_tree(node.left, constants), evaluate_tree(node.right, constants)
        return OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in STORAGE:
        inner = evaluate_tree(node.args[0], constants)
        return Value(node.func.id, from_number(node.func.id, inner), scalar=True)
    raise TypeError


# ---- splitting -----------------------------------------------------------------------------------


def without_comment(line):
    in_string = False
    for i, c in enumerate(line):
        if c == '"' and line[i - 1 : i] != "\\":
            in_string = not in_string
        elif c == ";" and not in_string:
            return line[:i].strip()
    return line.strip()


def split_commas(text):
    """The parts between commas that are not inside brackets or strings."""
    parts, depth, start, in_string = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"' and text[i - 1 : i] != "\\":
            in_string = not in_string
        elif in_string:
            continue
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def statements(text):
    """Line number and text of each statement; one that a bracket leaves open goes on."""
    opens_block = re.compile(r"^(\.func|\.test|while\b|if\b|loop\b|\}|[^={]*=\s*(loop|while|if)\b)")
    pending, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        line = without_comment(line)
        if not line:
            continue
        pending, first = (f"{pending} {line}", first) if pending else (line, number)
        opened = sum(pending.count(c) for c in "([") - sum(pending.count(c) for c in ")]")
        if not opens_block.match(pending) and pending != "}":
            opened += pending.count("{") - pending.count("}")
        if opened > 0 and '"' not in pending:
            continue
        yield first, pending
        pending = ""


# ---- types, data ---------------------------------------------------------------------------------


@dataclass
class Type:
    dtype: str
    shape: tuple = None  # None for a scalar


def parse_type(text, constants):
    match = re.fullmatch(r"(\w+)(?:\[(.*)\])?", text.strip())
    if match is None or match[1] not in STORAGE:
        raise SyntaxProblem(f"not a type: {text}")
    if match[2] is None:
        return Type(match[1])
    return Type(match[1], tuple(evaluate(d, constants) for d in split_commas(match[2])))


def parse_data(text, type_, constants):
    """A list in braces, row-major, bytes in hexadecimal, or one number for all elements."""
    shape = type_.shape if type_.shape is not None else ()
    if text.startswith("hex("):
        data = bytes.fromhex("".join(re.findall(r'"([^"]*)"', text)))
        return Value(type_.dtype, np.frombuffer(data, STORAGE[type_.dtype]).reshape(shape))
    if not text.startswith("{"):
        return Value(type_.dtype, np.full(shape, literal(evaluate(text, constants), type_.dtype)))
    items = [i.strip() for i in text.replace("{", "").replace("}", "").split(",")]
    numbers = [literal(evaluate(i, constants), type_.dtype) for i in items if i]
    return Value(type_.dtype, np.array(numbers, STORAGE[type_.dtype]).reshape(shape))


def literal(number, dtype):
    return number.data[()] if isinstance(number, Value) else from_number(dtype, number)


def number_text(dtype, element):
    """A number that reads back as the bits of this element; NaNs are one."""
    if dtype == "bool":
        return "true" if element else "false"
    if not is_real(dtype):
        return str(int(element))
    wide = float(decode_small(dtype, element)) if dtype in SMALL_FLOATS else float(element)
    if wide != wide or wide in (float("inf"), float("-inf")):
        return str(wide)
    exact = [
        text for text in (f"{wide:.{digits}g}" for digits in range(1, 9)) if float(text) == wide
    ]
    wanted = np.asarray(element).tobytes()
    for text in exact[:1] or (f"{wide:.{digits}g}" for digits in range(1, 18)):
        if np.asarray(from_number(dtype, float(text))).tobytes() == wanted:
            return tidy(text)
    return wide.hex()


def tidy(text):
    """Without an exponent where that is short, and `-0.0` with its sign."""
    number = float(text)
    if number == 0:
        return "-0.0" if text.startswith("-") else "0"
    if 1e-4 <= abs(number) < 1e7:
        return np.format_float_positional(number, trim="-")
    return re.sub(r"e([+-])0*(\d)", lambda m: f"e{m[1].replace('+', '')}{m[2]}", text)


def data_text(value):
    return "{" + ", ".join(number_text(value.dtype, x) for x in value.data.ravel()) + "}"


# ---- the module ----------------------------------------------------------------------------------


@dataclass
class Tensor:
    role: str
    name: str
    type: Type
    source: str = None  # text after `=`


@dataclass
class Statement:
    line: int
    text: str
    results: list
    mnemonic: str
    in_place: bool = False
    operands: list = field(default_factory=list)  # register names as str in a Name, numbers, Values
    attributes: dict = field(default_factory=dict)
    block: list = None
    other: list = None  # of `else`


@dataclass(frozen=True)
class Name:
    """A register, a module tensor or a parameter, with its sigil."""

    text: str


@dataclass
class Function:
    name: str
    parameters: list  # (name, Type, in place)
    results: list  # Types
    body: list = field(default_factory=list)


@dataclass
class Test:
    name: str
    line: int
    given: list = field(default_factory=list)  # (name with sigil, text)
    expected: list = field(default_factory=list)  # (tensor with sigil, text, line)
    trap: str = None


@dataclass
class Module:
    constants: dict = field(default_factory=dict)
    tensors: dict = field(default_factory=dict)
    params: dict = field(default_factory=dict)  # name: (dtype, number)
    functions: dict = field(default_factory=dict)
    tests: list = field(default_factory=list)
    initial: dict = field(default_factory=dict)  # seed: the tensors before a run, worked out once


CHOICES = {"mean": "reduction", "sum": "reduction", "none": "reduction"}


class Parser:
    def __init__(self, text):
        self.module = Module()
        self.lines = list(statements(text))  # with their numbers
        self.at = 0

    def parse(self):
        while self.at < len(self.lines):
            number, text = self.lines[self.at]
            self.at += 1
            try:
                self.item(number, text)
            except SyntaxProblem as problem:
                raise SyntaxProblem(f"line {number}: {problem}") from None
        return self.module

    def item(self, number, text):
        module, (word, *rest) = self.module, text.split(None, 1)
        rest = rest[0] if rest else ""
        if word == ".trek":
            return
        if word == ".const":
            name, value = rest.split("=", 1)
            module.constants[name.strip()] = evaluate(value, module.constants)
        elif word == ".param":
            match = re.fullmatch(r"\$(\w+)\s+(\w+)\s*=\s*(.*)", rest)
            module.params[match[1]] = (match[2], evaluate(match[3], module.constants))
        elif word in (".input", ".output", ".state", ".data", ".stream"):
            match = re.fullmatch(r"@(\w+)\s+(\w+\[[^\]]*\])(?:\s*=\s*(.*))?", rest)
            if match is None:
                raise SyntaxProblem(f"not a declaration: {text}")
            module.tensors[match[1]] = Tensor(
                word[1:], match[1], parse_type(match[2], module.constants), match[3]
            )
        elif word == ".func":
            function = self.signature(rest)
            module.functions[function.name] = function
            function.body = self.block()
        elif word == ".test":
            self.test(number, rest)
        else:
            raise SyntaxProblem(f"not an item of canonical text: {text}")

    def signature(self, text):
        match = re.fullmatch(r"(\w+)\s*\((.*?)\)\s*(?:->\s*\(?(.*?)\)?)?\s*\{", text)
        parameters = []
        for part in split_commas(match[2]):
            name, type_text = part.split(None, 1)
            parameters.append(
                (name.rstrip("!"), parse_type(type_text, self.module.constants), name.endswith("!"))
            )
        results = [parse_type(t, self.module.constants) for t in split_commas(match[3] or "")]
        return Function(match[1], parameters, results)

    def test(self, number, text):
        test = Test(text[1 : text.rindex('"')], number)
        while self.lines[self.at][1] != "}":
            line, entry = self.lines[self.at]
            self.at += 1
            expected = re.fullmatch(r"expect\s+(@\w+)\s*=\s*(.*)", entry)
            if expected:
                test.expected.append((expected[1], expected[2], line))
            elif entry.startswith("expect trap"):
                test.trap = entry.split()[2]
            else:
                name, value = entry.split("=", 1)
                test.given.append((name.strip(), value.strip()))
        self.at += 1
        self.module.tests.append(test)

    def block(self):
        """Statements up to the `}` that closes them, which is consumed (`} else {` is not)."""
        body = []
        while True:
            number, text = self.lines[self.at]
            if text.startswith("}"):
                if text == "}":
                    self.at += 1
                return body
            self.at += 1
            body.append(self.statement(number, text))

    def statement(self, number, text):
        match = re.match(r"((?:[@%$]\w+\s*,\s*)*[@%$]\w+)\s*=\s*(.*)", text)
        results = split_commas(match[1]) if match else []
        body = match[2] if match else text
        mnemonic, *rest = body.split(None, 1)
        rest = rest[0] if rest else ""
        statement = Statement(number, text, results, mnemonic.rstrip("!"), mnemonic.endswith("!"))
        if mnemonic in ("loop", "while", "if"):
            self.region(statement, rest[:-1].strip() if rest.endswith("{") else rest)
        elif mnemonic == "call":
            match = re.fullmatch(r"(\w+)\s*\((.*)\)", rest)
            statement.attributes["function"] = match[1]
            statement.operands = [self.operand(p) for p in split_commas(match[2])]
        elif mnemonic == "emit":
            name, operand = split_commas(rest)
            statement.attributes["name"] = name[1:-1]
            statement.operands = [self.operand(operand)]
        elif mnemonic == "trap":
            statement.attributes["message"] = rest[1:-1]
        else:
            for part in split_commas(rest):
                self.argument(statement, part)
        return statement

    def region(self, statement, header):
        header, _, carried = header.partition("carry ")
        carries = [c.split("=", 1) for c in split_commas(carried)]
        statement.attributes["carry"] = [
            (name.strip(), self.operand(value.strip())) for name, value in carries
        ]
        if statement.mnemonic == "loop":
            match = re.fullmatch(
                r"(\$\w+)\s*=\s*(.*?)\s+until\s+(.*?)(?:\s+step\s+(.*?))?\s*", header
            )
            statement.attributes["counter"] = match[1]
            statement.operands = [
                self.operand(part) for part in (match[2], match[3], match[4] or "1")
            ]
        elif statement.mnemonic == "if":
            statement.operands = [self.operand(header.strip())]
        statement.block = self.block()
        if self.at < len(self.lines) and self.lines[self.at][1] == "} else {":
            self.at += 1
            statement.other = self.block()

    def operand(self, text):
        return Name(text) if text[0] in "@%$" else evaluate(text, self.module.constants)

    def argument(self, statement, text):
        """An operand, `name=value`, a flag or a choice."""
        match = re.match(r"([A-Za-z_]\w*)\s*=(?!=)\s*(.*)", text)
        if match:
            statement.attributes[match[1]] = self.attribute(match[2])
        elif (
            re.fullmatch(r"[A-Za-z_]\w*", text)
            and text not in NAMED
            and text not in self.module.constants
        ):
            if text in CHOICES:
                statement.attributes[CHOICES[text]] = text
            else:
                statement.attributes[text] = True
        else:
            statement.operands.append(self.operand(text))

    def attribute(self, text):
        if text.startswith("["):
            return [self.operand(part) for part in split_commas(text[1:-1])]
        if text[0] in "@%$":
            return Name(text)
        if (
            re.fullmatch(r"[A-Za-z_][\w.]*", text)
            and text not in NAMED
            and text not in self.module.constants
        ):
            return text
        return evaluate(text, self.module.constants)


def parse(text):
    return Parser(text).parse()
