#!/usr/bin/python3
"""Holds an engine to the oracle: every instruction, every element type, many shapes, random data.

    tests/oracle/suite.py [--engine E] [--seed N] [--count N] [--only TEXT] [--jobs N] [--keep DIR]

For each instruction and element type a module is written that executes all cases (suite_cases.py),
trek-run runs it on 1 and on 2 threads, and its digests must be those of the oracle's results. Where
one differs, the values are fetched and the first difference is printed with the case. Exit code 1
where anything differs.

--count N repeats everything with the seeds that follow. --only takes `matmul` or `matmul/f32`.
--keep leaves the modules and data in DIR. trek-run is looked for in $TREK_BIN and build/*/bin.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suite_cases import cases_of  # noqa: E402
from trek_oracle.cases import suite_text  # noqa: E402
from trek_oracle.elements import STORAGE, canonical_bits  # noqa: E402
from trek_oracle.program import digest  # noqa: E402
from trek_oracle.table import ROOT, rows  # noqa: E402
from trek_oracle.text import number_text  # noqa: E402


def find_tool(name):
    folders = (
        [os.environ["TREK_BIN"]] if "TREK_BIN" in os.environ else sorted(ROOT.glob("build/*/bin"))
    )
    for folder in folders:
        if (Path(folder) / name).exists():
            return str(Path(folder) / name)
    sys.exit(f"{name} is not built (looked in {', '.join(map(str, folders)) or 'build/*/bin'})")


def run(tool, options, *more):
    """What trek-run prints, or None and its complaint."""
    done = subprocess.run(
        [tool, *more, "--engine", options.engine, "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    return (
        (done.stdout, None)
        if done.returncode == 0
        else (None, f"exit {done.returncode}: {done.stderr.strip()}")
    )


def digests(text):
    """Name to hash of `trek-run --digest`."""
    return {
        line.split()[0].lstrip("@"): line.split()[-1] for line in text.splitlines() if line.strip()
    }


def streams_of(cases, folder):
    """The arguments that feed streams, whose files they write."""
    arguments = []
    for number, case in enumerate(cases, 1):
        for name, blocks in case.streams.items():
            path = Path(folder) / f"{name}_{number}.bin"
            path.write_bytes(blocks.bytes())
            arguments += ["--input", f"{name}_{number}={path}"]
    return arguments


def first_difference(name, case, tensor, expected, found):
    wanted, got = (
        canonical_bits(expected.dtype, expected.data).ravel(),
        canonical_bits(expected.dtype, found).ravel(),
    )
    at = np.flatnonzero(wanted != got)
    position = [int(i) for i in np.unravel_index(at[0], expected.shape)] if expected.shape else []
    width = 2 * wanted.dtype.itemsize
    element = expected.data.ravel()[at[0]], found.ravel()[at[0]]
    texts = [
        f"{number_text(expected.dtype, e)} (0x{int(b):0{width}x})"
        for e, b in zip(element, (wanted[at[0]], got[at[0]]))
    ]
    operands = ", ".join(
        f"@{n} {v.type_text()}" for n, v in {**case.tensors, **case.states}.items()
    )
    same = len(wanted) - len(at)
    lines = [
        f"{name}: {case.title}",
        f"  {case.statements}",
        f"  with {operands}",
        f"  @{tensor} {expected.type_text()}{position}",
        f"  the oracle has {texts[0]}, the engine {texts[1]}",
        f"  {len(at)} elements differ, {same} do not",
    ]
    for operand, value in {**case.tensors, **case.states}.items():
        if value.shape == expected.shape and value.data.size:
            lines.append(
                f"  @{operand} there: {number_text(value.dtype, value.data.ravel()[at[0]])}"
            )
    return "\n".join(lines)


def explain(tool, options, name, path, cases, streams, wrong, folder):
    """A description of the first wrong tensor of each case."""
    reports, seen = [], set()
    for number, tensor in wrong:
        if number in seen:
            continue
        seen.add(number)
        case = cases[number - 1]
        expected = case.results[tensor]
        out = Path(folder) / "found.raw"
        _, problem = run(tool, options, path, *streams, "--output", f"{tensor}_{number}={out}")
        if problem:
            return [f"{name}: {problem}"]
        found = np.frombuffer(out.read_bytes(), STORAGE[expected.dtype]).reshape(expected.shape)
        reports.append(first_difference(name, case, tensor, expected, found))
    return reports


def check(job):
    """Reports of one instruction in one element type, and how many tensors were compared."""
    row, dtype, seed, options, tool = job
    name = f"{row.mnemonic}{'/' + dtype if dtype else ''} (seed {seed})"
    cases = cases_of(row, dtype, seed)
    if not cases:
        return [], 0
    expected = {
        (number, tensor): digest(case.results[tensor])
        for number, case in enumerate(cases, 1)
        for tensor in {**case.outputs, **case.states}
    }
    with tempfile.TemporaryDirectory(prefix="trek-oracle-") as folder:
        if options.keep:
            folder = os.path.join(options.keep, name.split()[0].replace("/", "-"))
            os.makedirs(folder, exist_ok=True)
        text, files = suite_text(cases, folder)
        for path, data in files.items():
            Path(path).write_bytes(data)
        path = str(Path(folder) / "module.trek")
        Path(path).write_text(text)
        streams = streams_of(cases, folder)
        for threads in ("1", "2"):
            printed, problem = run(tool, options, path, *streams, "--threads", threads, "--digest")
            if problem:
                return [f"{name}: {problem}"], 0
            found = digests(printed)
            wrong = [(n, t) for (n, t), hash_ in expected.items() if found.get(f"{t}_{n}") != hash_]
            if wrong:
                return (
                    explain(
                        tool,
                        options,
                        f"{name}, {threads} threads",
                        path,
                        cases,
                        streams,
                        wrong,
                        folder,
                    ),
                    0,
                )
    return [], len(expected)


def jobs_of(options, tool):
    wanted = (options.only or "").split("/")
    for seed in range(options.seed, options.seed + options.count):
        for row in rows():
            for dtype in row.dtypes or [None]:
                if options.only and (row.mnemonic != wanted[0] or wanted[1:] not in ([], [dtype])):
                    continue
                yield row, dtype, seed, options, tool


def main():
    parser = argparse.ArgumentParser(description="Compares an engine with the oracle.")
    parser.add_argument("--engine", default="ref")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--only", help="an instruction, or instruction/type")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", help="a folder for the modules and data")
    options = parser.parse_args()
    if options.seed < 0 or options.count < 1 or options.jobs < 1:
        parser.error("--seed is at least 0, --count and --jobs at least 1")
    jobs = list(jobs_of(options, find_tool("trek-run")))
    if not jobs:
        sys.exit(f"--only {options.only}: no such instruction or type")
    failures = compared = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for reports, count in pool.map(check, jobs):
            compared += count
            failures += len(reports)
            for report in reports:
                print(report, flush=True)
    print(f"{len(jobs)} modules, {compared} tensors equal the oracle's, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
