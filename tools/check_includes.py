#!/usr/bin/python3
"""Which folder may include which: the dependency rule of the project, checked.

Headers are found from the repository's root, so the compiler alone would accept any include. This
check reads every C++ source and fails when

  * a file includes a folder that SEES does not give its own folder: upward, sideways, or unknown;
  * an include in quotes is not written from the root ("../types.h", "types.h");
  * a file lies in a folder that SEES does not know.

    tools/check_includes.py [ROOT]        check; exit 0 clean, 1 with one line per offence
    tools/check_includes.py --self-test   show that each kind of offence is found
"""

import re
import sys
import tempfile
from pathlib import Path

# Folder -> the folders it may include beside itself. The longest prefix of a path is its folder, so
# `emulator` is the engine contract alone and `emulator/ref` has a row of its own.
SEES = {
    "isa/semantics": [],
    "isa": ["isa/semantics"],
    "assembler": ["isa", "isa/semantics"],
    "emulator": ["isa"],
    "emulator/kernels": ["isa", "isa/semantics"],
    "emulator/driver": [],
    "emulator/measure": ["emulator/driver"],
    "emulator/plan": ["isa", "isa/semantics"],
    "emulator/device": ["isa", "isa/semantics", "emulator/plan"],
    "emulator/resident": ["isa", "isa/semantics", "emulator", "emulator/plan", "emulator/device",
                          "emulator/driver", "emulator/measure"],
    "emulator/jit": ["isa", "isa/semantics", "emulator", "emulator/plan", "emulator/device",
                     "emulator/driver", "emulator/resident", "emulator/kernels"],
    "emulator/ref": ["isa", "isa/semantics", "emulator", "emulator/kernels"],
    "hostlib": ["isa", "assembler", "emulator", "emulator/plan", "emulator/jit", "emulator/ref",
                "emulator/resident", "emulator/measure", "emulator/driver"],
}
# On top: these may include everything above and their own.
TOP = ["tests", "samples", "tools"]

SUFFIXES = {".h", ".cpp", ".def", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def folder_of(path):
    """The row of the table that a path from the root belongs to, or None."""
    parts = path.split("/")[:-1]
    while parts:
        name = "/".join(parts)
        if name in SEES or name in TOP:
            return name
        parts.pop()
    return None


def offences_in(path, text):
    """Lines that break the rule, as 'path:line: what'."""
    own = folder_of(path)
    if own is None:
        yield f"{path}:1: lies in no folder of the table in tools/check_includes.py"
        return
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1)
        other = None if ".." in target.split("/") else folder_of(target)
        if other is None:
            yield f'{path}:{number}: "{target}" is not a path from the root into a known folder'
        elif own not in TOP and other != own and other not in SEES[own]:
            seen = ", ".join(SEES[own]) or "nothing else"
            yield f'{path}:{number}: "{target}" is not for {own}/, which sees {seen}'


def check(root):
    """All offences under `root`, and the number of files read."""
    offences, files = [], 0
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix not in SUFFIXES or name.split("/")[0] in ("build", ".git"):
            continue
        files += 1
        offences += offences_in(name, path.read_text(encoding="utf-8"))
    return offences, files


def self_test():
    """Plant one offence of each kind, and expect exactly those."""
    sources = {
        "isa/types.h": '#include <vector>\n#include "isa/semantics/round.h"\n',
        "isa/semantics/round.h": '#include "isa/types.h"\n',  # upward
        "isa/reader.cpp": '#include "types.h"\n',  # not from the root
        "assembler/parser.cpp": '#include "isa/types.h"\n  # include "emulator/engine.h"\n',  # sideways
        "assembler/printer.cpp": '#include "../isa/types.h"\n',  # not from the root
        "emulator/engine.h": '#include "emulator/ref/ref.h"\n',  # upward, to a nested folder
        "emulator/ref/ref.h": '#include "emulator/engine.h"\n#include "hostlib/run.h"\n',  # upward
        "hostlib/run.h": '#include "assembler/parser.h"\n#include "tests/unit/data.h"\n',  # upward
        "tests/unit/run_test.cpp": '#include "hostlib/run.h"\n#include "tests/unit/data.h"\n',
        "misc/helper.h": "",  # an unknown folder
        "build/dev/generated.h": '#include "anything.h"\n',
    }
    expected = [
        "assembler/parser.cpp:2",
        "assembler/printer.cpp:1",
        "emulator/engine.h:1",
        "emulator/ref/ref.h:2",
        "hostlib/run.h:2",
        "isa/reader.cpp:1",
        "isa/semantics/round.h:1",
        "misc/helper.h:1",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in sources.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        offences, _ = check(Path(folder))
    found = sorted(line.split(": ")[0] for line in offences)
    if found != expected:
        print("self-test: expected", *expected, "and found", *offences, sep="\n  ")
        return 1
    print(f"self-test: {len(expected)} planted offences found, and no other")
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    offences, files = check(root)
    if offences:
        print(*offences, sep="\n")
        return 1
    print(f"{files} files include only what their folders may see")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
