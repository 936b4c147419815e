#!/usr/bin/python3
"""Writes the conformance files: one per instruction of isa/ops.def, from the tables cases_*.py.

    tests/conformance/generate.py            writes every file whose cases changed, blessed
    tests/conformance/generate.py --check    exit 1 where a file is not what the tables give

The text holds declarations and code only; what is expected is filled in by tests/oracle/bless.py.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "oracle")]

import cases_control  # noqa: E402
import cases_model  # noqa: E402
import cases_move  # noqa: E402
import cases_pointwise  # noqa: E402
import cases_reduce  # noqa: E402
import cases_steps  # noqa: E402
from bless import blessed  # noqa: E402
from trek_oracle.cases import conformance_text  # noqa: E402
from trek_oracle.table import rows  # noqa: E402

TABLES = {
    "move": cases_move,
    "pointwise": cases_pointwise,
    "reduce": cases_reduce,
    "matrix": cases_model,
    "loss": cases_model,
    "optimizer": cases_steps,
    "random": cases_steps,
    "control": cases_control,
}


def text_of(row):
    return blessed(conformance_text(row.mnemonic, row.summary, TABLES[row.family].cases_of(row)))


def main(arguments):
    check = arguments == ["--check"]
    if arguments and not check:
        print(__doc__, file=sys.stderr)
        return 1
    stale = []
    for row in rows():
        path, text = HERE / f"{row.mnemonic}.trek", text_of(row)
        if path.exists() and path.read_text() == text:
            continue
        stale.append(path.name)
        if not check:
            path.write_text(text)
    known = {f"{row.mnemonic}.trek" for row in rows()}
    stale += [path.name for path in HERE.glob("*.trek") if path.name not in known]
    if check and stale:
        print(f"not what tests/conformance/generate.py gives: {', '.join(stale)}")
    elif stale:
        print(f"wrote {', '.join(stale)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
