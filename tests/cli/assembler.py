#!/usr/bin/python3
"""trek-as and trek-dis as a user meets them: where their output goes.

    TREK_BIN=build/dev/bin tests/cli/assembler.py [Class[.test]]
"""

import os
import resource
import socket
import subprocess
import unittest

from harness import ADD, BIN, CommandLine


class Output(CommandLine):
    """Files, standard output in each of its forms, and what cannot be written."""

    def setUp(self):
        super().setUp()
        self.write("add.trek", ADD)
        self.run_trek("add.trek", tool="trek-as")
        self.text = self.run_trek("add.tkb", tool="trek-dis").stdout
        self.assertTrue(self.text.startswith(".trek 1.0\n"))

    def dis(self, stdout, output="/dev/stdout"):
        subprocess.run([BIN / "trek-dis", "add.tkb", "-o", output], cwd=self.folder, stdout=stdout, check=True)

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def test_standard_output_that_is_a_file_goes_on_where_it_is(self):
        for output in ("/dev/stdout", "-", "/dev/fd/1", "/proc/self/fd/1"):
            with open(self.path("out"), "w", encoding="utf-8") as out:
                out.write("before\n")
                out.flush()
                before = os.fstat(out.fileno()).st_ino
                self.dis(out, output)
                subprocess.run(["echo", "after"], stdout=out, check=True)
            self.assertEqual(self.path("out").read_text(), "before\n" + self.text + "after\n")
            self.assertEqual(self.path("out").stat().st_ino, before)

    def test_a_file_that_is_appended_to_keeps_what_it_has(self):
        self.write("out", "before\n")
        with open(self.path("out"), "a", encoding="utf-8") as out:
            self.dis(out)
        self.assertEqual(self.path("out").read_text(), "before\n" + self.text)

    def test_a_pipe_and_a_socket_are_written_to(self):
        for output in ("/dev/stdout", "-"):
            self.assertEqual(self.run_trek("add.tkb", "-o", output, tool="trek-dis").stdout, self.text)
            ours, theirs = socket.socketpair()  # which cannot be opened by its name
            self.dis(theirs, output)
            theirs.close()
            with ours.makefile() as lines:
                self.assertEqual(lines.read(), self.text)
            ours.close()

    def test_a_named_pipe_is_written_to_and_stays_one(self):
        os.mkfifo(self.path("pipe"))
        with subprocess.Popen(["cat", "pipe"], cwd=self.folder, stdout=subprocess.PIPE, text=True) as reader:
            self.run_trek("add.tkb", "-o", "pipe", tool="trek-dis")
            self.assertEqual(reader.communicate()[0], self.text)
        self.assertTrue(self.path("pipe").is_fifo())

    def test_an_included_file_that_is_no_text_is_one_error(self):
        self.path("zeros").write_bytes(bytes(3000))
        for name, words in (("add.tkb", "this is a binary module"), ("zeros", "this is no text")):
            self.write("includes.trek", f'.trek 1.0\n.include "{name}"\n')
            said = self.run_trek("includes.trek", "--check", tool="trek-as", code=2).stderr
            self.assertIn(f"includes.trek:2:10: error[include-failed]: '{name}': {words}", said)
            self.assertEqual(said.count("error["), 1, said)

    def test_a_failed_write_is_one_and_leaves_nothing(self):
        before = self.files()
        for tool, file in (("trek-as", "add.trek"), ("trek-dis", "add.tkb")):
            for output in ("no/such/folder", "/dev/full", "."):
                said = self.run_trek(file, "-o", output, tool=tool, code=5).stderr
                self.assertIn(f"error[output-unwritable]: cannot write '{output}': ", said)
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = self.run_trek(file, "-o", "-", tool=tool, code=5, stdout=full)
            self.assertIn("No space left on device", done.stderr)
        self.assertEqual(self.files(), before)


class Hostile(CommandLine):
    """What could go on without end is refused soon."""

    def test_a_repetition_without_end(self):
        self.write("r.trek", ".trek 1.0\n.macro wide X {\n  %a = relu {X}\n  %b = add %a, {X}\n}\n"
                   ".func main() {\n  %x = fill 1, shape=[2], to=f32\n  .repeat I = 0 until 1 << 62 {\n    wide %x\n  }\n}\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = self.fails("--check", "r.trek", code=2, tool="trek-as")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(said.count("error["), 1)
        self.assertIn("error[expansion-limit]", said)
        self.assertLess(after.ru_utime - before.ru_utime, 5)  # of processor time, in any build; half a second is usual


if __name__ == "__main__":
    unittest.main()
