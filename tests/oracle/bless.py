#!/usr/bin/python3
"""Expected values of conformance files, from the oracle.

    tests/oracle/bless.py [FILE...]          exit 1 where a file expects what the oracle does not
    TREK_BLESS=1 tests/oracle/bless.py ...   rewrites the `expect` lines instead

Without files: every file of tests/conformance. Only lines `expect @tensor = {...}` change; a test
that expects a trap must meet just that trap.
"""

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from trek_oracle.cases import fold  # noqa: E402
from trek_oracle.program import Program, bind  # noqa: E402
from trek_oracle.text import data_text, parse  # noqa: E402

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance"


class Disagreement(Exception):
    pass


def outcome_of(module, test):
    """What a test's program does; the wrong trap, or none, is a Disagreement."""
    outcome = Program(module, bind(module, test.given)).run()
    found = outcome.trap.name if outcome.trap else None
    if found != test.trap:
        raise Disagreement(
            f'"{test.name}": expects trap {test.trap}, the oracle gives {found}'
            f" (line {outcome.line})"
        )
    return outcome


def blessed(text):
    """The text with every expectation as the oracle has it."""
    module = parse(text)
    lines = text.splitlines()
    replaced = {}  # index of the first line of an expectation: its new text
    for test in module.tests:
        outcome = outcome_of(module, test)
        for name, _, line in test.expected:
            value = outcome.tensors[name[1:]]
            replaced[line - 1] = fold(f"  expect {name} = {data_text(value)}", "    ")
    result, skipping = [], False
    for i, line in enumerate(lines):
        if i in replaced:
            result.append(replaced[i])
            skipping = "}" not in line
        elif skipping:
            skipping = "}" not in line
        else:
            result.append(line)
    return re.sub(r"\n*$", "\n", "\n".join(result))


def main(files):
    missing = [f for f in files if not Path(f).is_file()]
    if missing:
        print(f"no such file: {missing[0]}", file=sys.stderr)
        return 2
    wrong = 0
    for path in [Path(f) for f in files] or sorted(CONFORMANCE.glob("*.trek")):
        old = path.read_text()
        try:
            new = blessed(old)
        except Disagreement as problem:
            print(f"{path}: {problem}")
            wrong += 1
            continue
        if new == old:
            continue
        if os.environ.get("TREK_BLESS") == "1":
            path.write_text(new)
            print(f"blessed {path}")
            continue
        wrong += 1
        for number, (a, b) in enumerate(zip(old.splitlines(), new.splitlines()), 1):
            if a != b:
                print(f"{path}:{number}: expects\n  {a}\nthe oracle gives\n  {b}")
                break
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
