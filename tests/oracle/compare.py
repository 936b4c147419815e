#!/usr/bin/python3
"""Runs whole programs on the oracle and on an engine, and compares everything that can be seen.

    tests/oracle/compare.py FILE.trek... [--engine E] [--seed N] [--set NAME=VALUE]...
    tests/oracle/compare.py --programs       those of tests/oracle/programs, with three seeds
    tests/oracle/compare.py --traps          every conformance test that expects a trap

Compared are outputs and states by their digests, emitted values, and of a trap its name, its line,
its element and what was written before it. A program binds nothing: its inputs have data. One with
macros, or `{NAME}` in strings, is taken as trek-dis prints it. The tools are looked for in
$TREK_BIN and build/*/bin. Exit code 1 where anything differs.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suite import find_tool  # noqa: E402
from trek_oracle.elements import STORAGE, canonical_bits, from_number  # noqa: E402
from trek_oracle.program import Program, bind, digest  # noqa: E402
from trek_oracle.text import parse  # noqa: E402

HERE = Path(__file__).resolve().parent
EXPANDED = re.compile(r"^\s*\.(macro|include|repeat|if)\b|\{[A-Z]\w*\}", re.M)


def canonical(path, folder):
    """The file, or its disassembly where it has macros or `{NAME}` to expand."""
    if not EXPANDED.search(path.read_text()):
        return path
    binary, text = Path(folder) / "program.tkb", Path(folder) / "program.trek"
    subprocess.run([find_tool("trek-as"), path, "-o", binary], check=True)
    subprocess.run([find_tool("trek-dis"), binary, "-o", text], check=True)
    return text


def report_of(path, folder, options, settings, seed):
    """What trek-run says about a run, as its JSON has it; None where it ended in an error."""
    report = Path(folder) / "report.json"
    command = [find_tool("trek-run"), path, "--engine", options.engine, "--quiet", "--digest"]
    command += ["--seed", str(seed), "--json", report]
    for name, value in settings:
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        print(done.stderr, file=sys.stderr)
        return None
    return json.loads(report.read_text())


def trap_of(outcome):
    trap = outcome.trap
    return (trap.name, outcome.line, trap.element) if trap else None


def reported_trap(report):
    trap = report["result"].get("trap")
    return (trap["code"], trap["at"]["line"], trap["element"]) if trap else None


def flat(value):
    """The numbers of a JSON value."""
    if isinstance(value, list):
        return [number for item in value for number in flat(item)]
    return [float(value)]


def same_numbers(found, value):
    """Whether decimal numbers, read as elements of the type, are those of a Value."""
    data = [from_number(value.dtype, number) for number in flat(found)]
    bits = canonical_bits(value.dtype, np.array(data, STORAGE[value.dtype]))
    return bits.tolist() == canonical_bits(value.dtype, value.data).ravel().tolist()


def differences(path, options, settings=(), seed=0):
    """What the oracle and the engine see differently."""
    with tempfile.TemporaryDirectory(prefix="trek-oracle-") as folder:
        path = canonical(Path(path), folder)
        module = parse(path.read_text())
        given = bind(module, [(f"${name}", value) for name, value in settings])
        outcome = Program(module, given, seed=seed).run()
        report = report_of(path, folder, options, settings, seed)
    if report is None:
        yield "the engine did not run it"
        return
    if trap_of(outcome) != reported_trap(report):
        yield f"trap: the oracle has {trap_of(outcome)}, the engine {reported_trap(report)}"
    hashes = {entry["name"]: entry["digest"] for entry in report["digests"]}
    for tensor in module.tensors.values():
        value = outcome.tensors[tensor.name]
        if tensor.role in ("output", "state") and hashes.get(tensor.name) != digest(value):
            found = hashes.get(tensor.name)
            yield f"@{tensor.name}: the oracle has {digest(value)}, the engine {found}"
    wanted = [(name, value.type_text()) for name, value in outcome.emitted]
    if wanted != [(entry["name"], entry["type"]) for entry in report["emitted"]]:
        yield f"emitted: the oracle has {wanted}, the engine {report['emitted']}"
        return
    for (name, value), entry in zip(outcome.emitted, report["emitted"]):
        if not same_numbers(entry["value"], value):
            yield f"emitted {name}: the oracle has {value.data}, the engine {entry['value']}"


def trapping_tests():
    """File and settings of each conformance test that expects a trap."""
    for path in sorted((HERE.parent / "conformance").glob("*.trek")):
        for test in parse(path.read_text()).tests:
            if test.trap:
                yield path, [(name[1:], value) for name, value in test.given]


def runs_of(options):
    settings = [tuple(text.split("=", 1)) for text in options.set]
    for path in options.files:
        yield path, settings, options.seed
    for path in sorted((HERE / "programs").glob("*.trek")) if options.programs else []:
        for seed in (0, 1, 2**63 + 5):
            yield path, settings, seed
    for path, given in trapping_tests() if options.traps else []:
        yield path, given, 0


def main():
    parser = argparse.ArgumentParser(description="Compares programs on an engine with the oracle.")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--programs", action="store_true", help="those of tests/oracle/programs")
    parser.add_argument("--traps", action="store_true", help="conformance tests that trap")
    parser.add_argument("--engine", default="ref")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    missing = [path for path in options.files if not Path(path).is_file()]
    if missing or any("=" not in text for text in options.set):
        parser.error(f"no such file: {missing[0]}" if missing else "--set takes NAME=VALUE")
    runs = list(runs_of(options))
    if not runs:
        parser.error("no program given")
    failures = 0
    for path, settings, seed in runs:
        for difference in differences(path, options, settings, seed):
            shown = " ".join(f"{name}={value}" for name, value in settings)
            print(f"{path} {shown} (seed {seed}): {difference}")
            failures += 1
    print(f"{len(runs)} runs, {failures} differences")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
