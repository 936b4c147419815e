#!/usr/bin/python3
"""Every row of isa/ops.def has a function in the oracle and a conformance file with tests; and no
more.

tests/oracle/check_table.py    exit 1 with a line for each that is missing or left over
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from trek_oracle.instructions import INSTRUCTIONS  # noqa: E402
from trek_oracle.program import CONTROL  # noqa: E402
from trek_oracle.table import ROOT, all_mnemonics  # noqa: E402


def problems():
    table = set(all_mnemonics())
    # Each row, however it is written, has one number.
    numbers = (ROOT / "isa/ops.def").read_text().count(", 0x0")
    if len(table) != numbers:
        yield f"isa/ops.def has {numbers} rows, of which this check understands {len(table)}"
    oracle = set(INSTRUCTIONS) | CONTROL
    files = {
        path.name.removesuffix(".trek"): path
        for path in (ROOT / "tests/conformance").glob("*.trek")
    }
    for mnemonic in sorted(table):
        if mnemonic not in oracle:
            yield f"{mnemonic}: no function in tests/oracle/trek_oracle"
        if mnemonic not in files:
            yield f"{mnemonic}: no file tests/conformance/{mnemonic}.trek"
        elif ".test " not in files[mnemonic].read_text():
            yield f"{mnemonic}: tests/conformance/{mnemonic}.trek has no test"
    for mnemonic in sorted(oracle - table):
        yield f"{mnemonic}: the oracle has it, isa/ops.def has not"
    for mnemonic in sorted(set(files) - table):
        yield f"{files[mnemonic]}: no such instruction in isa/ops.def"


if __name__ == "__main__":
    found = list(problems())
    print(
        "\n".join(found)
        or f"{len(set(all_mnemonics()))} instructions: each with an oracle and a conformance file"
    )
    sys.exit(1 if found else 0)
