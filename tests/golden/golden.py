#!/usr/bin/python3
"""Golden tests: what the tools print, to the letter.

A test is a file NAME.trek, or NAME.tkb.hex for a binary, whose first line says what to run:

    ; golden: trek-as --check bad-alias.trek
    # golden: trek-dis bad-magic.tkb

The command runs in a copy of this folder, where a .hex file has become the binary it spells. Its exit
code, standard output and standard error must be those of NAME.out. Each error code of isa/errors.def has a
file bad-CODE.* whose output shows that code.

    tests/golden/golden.py [NAME...]          run all, or those named
    TREK_BLESS=1 tests/golden/golden.py       write what comes out as what is expected; read the diff
    tests/golden/golden.py --complete         only whether every error code has its file

The tools are those of $TREK_BIN (build/dev/bin if not set).
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
GOLDEN = re.compile(r"^[;#] golden: (.+)$")


def tests():
    """Test name -> (file, command), for every file whose first line gives one."""
    found = {}
    for path in sorted(FOLDER.iterdir()):
        name = path.name.removesuffix(".trek").removesuffix(".tkb.hex")
        if name == path.name:
            continue
        match = GOLDEN.match(path.read_bytes().split(b"\n")[0].decode(errors="replace"))
        if match:
            found[name] = (path, match.group(1))
    return found


def prepare(folder):
    """Copies this folder; .hex files become what they spell ('#' begins a comment)."""
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("*.out", "__pycache__"))
    for path in folder.glob("*.hex"):
        digits = re.sub(r"#.*", "", path.read_text())
        path.with_suffix("").write_bytes(bytes.fromhex(digits))


def run(command, folder):
    tools = os.environ.get("TREK_BIN", str(ROOT / "build/dev/bin"))
    environment = dict(os.environ, PATH=tools + os.pathsep + os.environ["PATH"], NO_COLOR="1", LC_ALL="C")
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True,
                          timeout=300, check=False)
    parts = [f"exit {done.returncode}\n"]
    for title, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        if text:
            parts.append(f"---- {title}\n" + text.decode(errors="backslashreplace"))
            if not text.endswith(b"\n"):
                parts.append("\n---- (no line end)\n")
    return "".join(parts)


def check(name, path, command, folder):
    """Whether the output is as expected; prints the difference, or writes the new one."""
    expected_path = FOLDER / f"{name}.out"
    actual = run(command, folder)
    if name.startswith("bad-") and f"error[{name.removeprefix('bad-')}]" not in actual:
        print(f"{path.name}: its output does not show error[{name.removeprefix('bad-')}]\n{actual}")
        return False
    expected = expected_path.read_text() if expected_path.exists() else ""
    if actual == expected:
        return True
    if os.environ.get("TREK_BLESS") == "1":
        expected_path.write_text(actual)
        print(f"wrote {expected_path.name}")
        return True
    sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), actual.splitlines(True),
                                               f"{name}.out", command))
    return False


def missing_codes(found):
    rows = (ROOT / "isa/errors.def").read_text()
    codes = re.findall(r'^TREK_ERROR\(\w+,\s*"([a-z-]+)"', rows, re.MULTILINE)
    return [code for code in codes if f"bad-{code}" not in found]


def main(arguments):
    found = tests()
    if "--complete" in arguments:
        missing = missing_codes(found)
        for code in missing:
            print(f"no tests/golden/bad-{code}.trek or .tkb.hex shows error[{code}]")
        return 1 if missing else 0
    unknown = [name for name in arguments if name not in found]
    if unknown:
        print("no such test: " + ", ".join(unknown))
        return 1
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "golden"
        prepare(folder)
        for name in arguments or found:
            if not check(name, *found[name], folder):
                failed.append(name)
    stale = {path.stem for path in FOLDER.glob("*.out")} - set(found)
    for name in sorted(stale):
        print(f"{name}.out belongs to no test")
    print(f"{len(arguments or found) - len(failed)} as expected, {len(failed)} not" + "".join(f"\n  {name}" for name in failed))
    return 1 if failed or stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
