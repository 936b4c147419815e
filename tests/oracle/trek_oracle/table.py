"""The rows of isa/ops.def as far as the tests need them: names, families, sentences, types."""

import re
from dataclasses import dataclass
from pathlib import Path

from .elements import ALL, INTS, NUMBERS, ORDERED, REALS

ROOT = Path(__file__).resolve().parents[3]
SETS = {
    "kReals": REALS,
    "kInts": INTS,
    "kNumbers": NUMBERS,
    "kBits": INTS + ["bool"],
    "kOrdered": ORDERED,
    "kAll": ALL,
}


@dataclass
class Row:
    mnemonic: str
    family: str
    dtypes: list  # what T may be; empty where there is no T
    summary: str


def rows():
    """All rows, in the order of the file."""
    text = (ROOT / "isa/ops.def").read_text()
    text = re.sub(r"//.*", "", text)
    families = {
        "0x01": "move",
        "0x02": "pointwise",
        "0x03": "reduce",
        "0x04": "matrix",
        "0x05": "loss",
        "0x06": "optimizer",
        "0x07": "random",
        "0x08": "control",
    }
    starts = list(
        re.finditer(r"^TREK_(\w+)\(\w+, (0x\w{4}),\s*(?:\.mnemonic = )?\"([^\"]+)\"", text, re.M)
    )
    result = []
    for start, following in zip(starts, starts[1:] + [None]):
        body = text[start.end() : following.start() if following else len(text)]
        body = body.split("#undef")[0].split("#define")[0]
        named = re.search(r"\.t = (k\w+)", body) or re.search(
            r"\b(k[A-Z]\w+)", body.split(".summary")[0]
        )
        kind = start[1]
        if named is None and kind in ("FUNCTION", "GRADIENT", "ARG"):
            named = {"FUNCTION": "kReals", "GRADIENT": "kReals", "ARG": "kOrdered"}[kind]
        name = named if isinstance(named, str) or named is None else named[1]
        sentence = re.findall(r'\.summary = "([^"]*)"', body) or re.findall(r'"([^"]*)"', body)[-1:]
        result.append(Row(start[3], families[start[2][:4]], SETS.get(name, []), sentence[0]))
    return result


def all_mnemonics():
    return [row.mnemonic for row in rows()]
