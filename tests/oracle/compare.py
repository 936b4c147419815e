#!/usr/bin/python3
"""Runs a program on the oracle and on an engine, and compares every output and state.

    tests/oracle/compare.py FILE.trek... [--engine E] [--seed N]
    tests/oracle/compare.py --programs          those of tests/oracle/programs, with three seeds

A program is canonical text (no macros, no includes; `trek-dis` prints that) and binds nothing:
inputs have data in the text. trek-run is looked for in $TREK_BIN and build/*/bin. Exit code 1 where
a tensor differs, or a trap or its line.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suite import digests, find_tool  # noqa: E402
from trek_oracle.program import Program, digest  # noqa: E402
from trek_oracle.text import parse  # noqa: E402

PROGRAMS = Path(__file__).resolve().parent / "programs"


def differences(path, tool, engine, seed):
    module = parse(Path(path).read_text())
    outcome = Program(module, seed=seed).run()
    found = subprocess.run(
        [tool, str(path), "--engine", engine, "--quiet", "--digest", "--seed", str(seed)],
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.trap:
        if found.returncode != 3 or outcome.trap.name not in found.stderr:
            yield f"the oracle traps ({outcome.trap}), the engine: {found.stderr.strip()}"
        elif not re.search(rf":{outcome.line}\b", found.stderr):
            yield f"the oracle traps in line {outcome.line}, the engine: {found.stderr.strip()}"
        return
    if found.returncode != 0:
        yield f"exit {found.returncode}: {found.stderr.strip()}"
        return
    hashes = digests(found.stdout)
    for tensor in module.tensors.values():
        value = outcome.tensors[tensor.name]
        if tensor.role in ("output", "state") and hashes.get(tensor.name) != digest(value):
            yield (
                f"@{tensor.name} {value.type_text()}: the oracle has {digest(value)},"
                f" the engine {hashes.get(tensor.name)}"
            )


def main():
    parser = argparse.ArgumentParser(description="Compares a program on an engine with the oracle.")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--programs", action="store_true", help="those of tests/oracle/programs")
    parser.add_argument("--engine", default="ref")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    files = options.files + (sorted(PROGRAMS.glob("*.trek")) if options.programs else [])
    if not files:
        parser.error("no program given")
    tool = find_tool("trek-run")
    failures = 0
    for path in files:
        for seed in (
            [options.seed or 0]
            if options.seed is not None or not options.programs
            else [0, 1, 2**63 + 5]
        ):
            for difference in differences(path, tool, options.engine, seed):
                print(f"{path}, seed {seed}: {difference}")
                failures += 1
    print(f"{len(files)} programs, {failures} differences")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
