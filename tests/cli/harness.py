"""What every test of the command line needs: a scratch folder, programs in it, and the tools run as a user
runs them."""

import json
import os
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

BIN = Path(os.environ["TREK_BIN"]).resolve()


class CommandLine(unittest.TestCase):
    """Runs in a scratch folder of its own."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def path(self, name):
        return self.folder / name

    def write(self, name, text):
        self.path(name).write_text(text, encoding="utf-8")
        return name

    def npy(self, name, values, dtype):
        np.save(self.path(name), np.array(values, dtype=dtype))
        return name

    def start(self, *arguments, **keywords):
        return subprocess.Popen([BIN / "trek-run", *arguments], cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **keywords)

    def run_trek(self, *arguments, code=0, tool="trek-run", **keywords):
        """The finished process, which must have ended with `code`."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | keywords
        done = subprocess.run([BIN / tool, *arguments], cwd=self.folder, text=True, timeout=100,
                              check=False, **streams)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def fails(self, *arguments, code, **keywords):
        """What is said on stderr by a run that must end with `code`, saying something there."""
        said = self.run_trek(*arguments, code=code, **keywords).stderr
        self.assertTrue(said.endswith("\n"), said)
        return said

    def read_json(self, name):
        return json.loads(self.path(name).read_text(encoding="utf-8"))


def write_safetensors(path, arrays):
    """A safetensors file by its specification: header length, JSON header, bytes."""
    names = {np.dtype("float32"): "F32", np.dtype("int64"): "I64", np.dtype("uint8"): "U8"}
    header, blob = {}, b""
    for name, array in arrays.items():
        begin = len(blob)
        blob += array.tobytes()
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape),
                        "data_offsets": [begin, len(blob)]}
    text = json.dumps(header).encode()
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + blob)


def read_safetensors(path):
    types = {"F32": np.float32, "I64": np.int64, "U8": np.uint8}
    raw = Path(path).read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header, blob = json.loads(raw[8:8 + length]), raw[8 + length:]
    return {name: np.frombuffer(blob[slice(*entry["data_offsets"])], types[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


# A program that adds, keeps a sum, and emits.
ADD = """.trek 1.0
.param  $factor f32 = 2.0
.input  @left  f32[2,3]
.input  @right f32[2,3] = {{1, 1, 1}, {1, 1, 1}}
.state  @total f32[2,3] = 0
.output @sum f32[2,3]
.func main() {
  %scaled = mul @left, $factor
  @sum = add %scaled, @right
  %next = add @total, @sum
  @total = copy %next
  emit "sum", @sum
}
"""

# Counts in a state, for as long as it is told.
COUNT = """.trek 1.0
.param $trips i64 = 3
.state @count i64[] = 0
.func main() {
  loop $i = 0 until $trips {
    $n = load @count, at=[]
    $m = add $n, 1
    store! @count, $m, at=[]
  }
}
"""
