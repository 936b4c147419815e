#!/usr/bin/python3
"""trek-run and what it gives: results, reports of embedded tests, a terminal, an interrupted run.

    TREK_BIN=build/dev/bin tests/cli/run_results.py [Class[.test]]
"""

import os
import pty
import re
import select
import signal
import subprocess
import time
import unittest

import numpy as np

from harness import ADD, BIN, COUNT, CommandLine, read_safetensors, write_safetensors


class Interrupted(CommandLine):
    """Exit code 130: Ctrl-C, or SIGTERM."""

    def setUp(self):
        super().setUp()
        self.write("count.trek", COUNT)

    def interrupt(self, number, *arguments):
        running = self.start("count.trek", "--set", "trips=1000000000000", *arguments)
        time.sleep(1)
        running.send_signal(number)
        out, err = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130, err)
        return out, err

    def test_ctrl_c_says_where_and_saves(self):
        out, err = self.interrupt(signal.SIGINT, "--save", "s.safetensors", "--json", "r.json", "--digest",
                                  "--output", "count=c.npy", "--profile")
        self.assertRegex(err, r"count\.trek:\d+:\d+: interrupted")
        self.assertIn("in function main", err)
        count = read_safetensors(self.path("s.safetensors"))["count"]
        self.assertGreater(count, 0)
        self.assertEqual(np.load(self.path("c.npy")), count)
        report = self.read_json("r.json")
        self.assertEqual(report["result"]["outcome"], "stopped")
        self.assertIn("@count i64[]", out)
        self.assertIn("Where the time went", out)

    def test_sigterm_likewise(self):
        self.interrupt(signal.SIGTERM, "--save", "s.safetensors")
        self.assertTrue(self.path("s.safetensors").exists())

    def test_ctrl_c_while_code_is_made_ends_soon(self):
        steps = "".join(f"    %a{i} = matmul @x, @x, tail={tail}\n    %b{i} = softmax %a{i}, axis={i % 2}\n"
                        f"    @x = add %b{i}, {i}.5\n"
                        for i, tail in enumerate(["relu", "gelu", "tanh", "silu"] * 500))
        self.write("large.trek", ".trek 1.0\n.state @x f32[64,64] = 1\n.func main() {\n"
                   f"  loop $i = 0 until 1000000000 {{\n{steps}  }}\n}}\n")
        running = self.start("large.trek", "--save", "s.safetensors")
        self.assertTrue(self.waits_for(lambda: self.cpu_ticks(running.pid) > 150))  # it compiles, where it does
        running.send_signal(signal.SIGINT)
        begin = time.monotonic()
        err = running.communicate(timeout=60)[1]
        self.assertLess(time.monotonic() - begin, 20)  # minutes, were it to make all of it
        self.assertEqual(running.returncode, 130, err)
        self.assertRegex(err, "interrupted")

    def test_states_are_whole_where_a_run_was_interrupted(self):
        self.write("two.trek", """.trek 1.0
.state @count i64[] = 0
.state @big f32[256,256] = 1
.state @after i64[] = 0
.func main() {
  while {
    $n    = load @count, at=[]
    $next = add $n, 1
    store! @count, $next, at=[]
    %p    = matmul @big, @big
    @big  = mul %p, 1e-5
    $m    = load @after, at=[]
    $then = add $m, 1
    store! @after, $then, at=[]
    test true
  }
}
""")
        for engine in ("ref", "resident-host"):
            running = self.start("two.trek", "--engine", engine, "--save", "s.safetensors")
            self.assertTrue(self.waits_for(lambda pid=running.pid: self.cpu_ticks(pid) > 40))
            running.send_signal(signal.SIGINT)
            err = running.communicate(timeout=60)[1]
            self.assertEqual(running.returncode, 130, err)
            saved = read_safetensors(self.path("s.safetensors"))
            self.assertGreater(saved["count"], 0)
            self.assertEqual(saved["count"], saved["after"])

    def test_a_second_ctrl_c_ends_at_once(self):
        self.write("slow.trek", ".trek 1.0\n.state @x f64[8192,8192] = 1\n.func main() {\n"
                   "  loop $i = 0 until 1000 {\n    %y = matmul @x, @x\n    @x = copy %y\n  }\n}\n")
        running = self.start("slow.trek", "--threads", "1", "--save", "s.safetensors")
        time.sleep(2)
        running.send_signal(signal.SIGINT)
        self.assertIn("once more", "".join(running.stderr.readline() for _ in range(2)))
        running.send_signal(signal.SIGINT)
        begin = time.monotonic()
        running.communicate(timeout=60)
        self.assertLess(time.monotonic() - begin, 2)
        self.assertEqual(running.returncode, 130)
        self.assertFalse(self.path("s.safetensors").exists())


    def test_a_second_ctrl_c_while_saving_leaves_no_part_of_a_file(self):
        self.write("large.trek", ".trek 1.0\n.state @x f32[8192,8192] = 1\n.state @n i64[] = 0\n"
                   ".func main() {\n  loop $i = 0 until 1000000000000 {\n    store! @n, $i, at=[]\n  }\n}\n")
        self.assertTrue(any(self.is_cut_while_saving() for _ in range(10)), "the second signal came too late each time")

    def is_cut_while_saving(self):
        """Whether the second signal came while the file was being written; if so, what it left is checked."""
        before = sorted(path.name for path in self.folder.iterdir())
        running = self.start("large.trek", "--save", "s.safetensors")
        self.assertTrue(self.waits_for(lambda: self.cpu_ticks(running.pid) > 50))  # it runs
        running.send_signal(signal.SIGINT)
        folder = str(self.folder.resolve())
        self.waits_for(lambda: running.poll() is not None or any(
            file.startswith(folder) for file in self.open_files(running.pid)))
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130, err)
        if self.path("s.safetensors").exists():  # complete before the signal
            self.path("s.safetensors").unlink()
            return False
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), before)
        return True

    @staticmethod
    def waits_for(condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        return True

    @staticmethod
    def cpu_ticks(pid):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return int(stat.read().rsplit(")", 1)[1].split()[11])

    @staticmethod
    def open_files(pid):
        try:
            return [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
        except OSError:  # one was closed meanwhile, or the process is gone
            return []


class Results(CommandLine):
    """Exit code 0, and what a run leaves."""

    def setUp(self):
        super().setUp()
        self.write("add.trek", ADD)
        self.left = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
        self.npy("left.npy", self.left, np.float32)
        self.given = ("add.trek", "--input", "left=left.npy")

    def test_emitted_values_are_lines(self):
        self.assertEqual(self.run_trek(*self.given).stdout, "sum = {{3, 5, 7}, {9, 11, 13}}\n")

    def test_quiet_prints_nothing(self):
        done = self.run_trek(*self.given, "--quiet")
        self.assertEqual((done.stdout, done.stderr), ("", ""))

    def test_names_may_carry_their_sigil(self):
        self.run_trek("add.trek", "--input", "@left=left.npy", "--set", "$factor=-0.5", "--output", "@sum=o.npy")
        np.testing.assert_array_equal(np.load(self.path("o.npy")), self.left * np.float32(-0.5) + 1)

    def test_outputs_in_each_format(self):
        self.run_trek(*self.given, "--output", "sum=o.npy", "--output", "total=o.safetensors")
        np.testing.assert_array_equal(np.load(self.path("o.npy")), self.left * 2 + 1)
        np.testing.assert_array_equal(read_safetensors(self.path("o.safetensors"))["total"], self.left * 2 + 1)
        self.run_trek(*self.given, "--output", "sum=o.bin")
        self.assertEqual(self.path("o.bin").read_bytes(), (self.left * 2 + 1).tobytes())

    def test_inputs_in_each_format(self):
        write_safetensors(self.path("in.safetensors"), {"other": self.left, "left": self.left + 1})
        self.path("in.raw").write_bytes(self.left.tobytes())
        np.save(self.path("flat.npy"), self.left.reshape(6))
        os.rename(self.path("flat.npy"), self.path("by_content"))
        for file, first in (("in.safetensors", 5), ("in.safetensors:other", 3), ("in.raw", 3), ("by_content", 3)):
            out = self.run_trek("add.trek", "--input", f"left={file}").stdout
            self.assertTrue(out.startswith(f"sum = {{{{{first}, "), f"{file}: {out}")

    def test_a_digest_is_of_outputs_and_states_in_order(self):
        out = self.run_trek(*self.given, "--quiet", "--digest").stdout
        self.assertRegex(out, r"^@total f32\[2,3\] [0-9a-f]{32}\n@sum f32\[2,3\] [0-9a-f]{32}\n$")
        total, total_sum = (line.split()[-1] for line in out.splitlines())
        self.assertEqual(total, total_sum)

    def test_saved_state_goes_on_where_it_was(self):
        self.write("count.trek", COUNT)
        self.run_trek("count.trek", "--save", "s.safetensors", "--set", "trips=2")
        self.run_trek("count.trek", "--state", "s.safetensors", "--save", "s.safetensors", "--set", "trips=0x5")
        self.assertEqual(read_safetensors(self.path("s.safetensors"))["count"], 7)

    def test_a_stream_gives_its_blocks_until_its_end(self):
        self.write("stream.trek", """.trek 1.0
.stream @blocks i64[2]
.state  @sum i64[2] = 0
.func main() {
  while {
    %block, $more = next @blocks
    test $more
    %next = add @sum, %block
    @sum = copy %next
    emit "block", %block
  }
}
""")
        self.npy("blocks.npy", [[1, 2], [3, 4], [5, 6]], np.int64)
        self.npy("flat.npy", [1, 2, 3, 4, 5, 6], np.int64)
        self.npy("odd.npy", [1, 2, 3], np.int64)
        for name in ("blocks", "flat"):
            out = self.run_trek("stream.trek", "--input", f"blocks={name}.npy", "--output", "sum=s.npy").stdout
            self.assertEqual(out, "block = {1, 2}\nblock = {3, 4}\nblock = {5, 6}\n")
            self.assertEqual(np.load(self.path("s.npy")).tolist(), [9, 12])
        self.assertIn("whole number of blocks", self.fails("stream.trek", "--input", "blocks=odd.npy", code=2))
        self.assertIn("stream @blocks", self.fails("stream.trek", code=2))

    def test_the_json_report_tells_everything(self):
        self.run_trek(*self.given, "--json", "r.json", "--engine", "ref", "--numerics", "strict", "--threads", "1")
        report = self.read_json("r.json")
        self.assertEqual(report["result"], {"outcome": "done"})
        self.assertEqual(report["numerics"], "strict")
        self.assertEqual(report["emitted"], [{"name": "sum", "type": "f32[2,3]", "value": [3, 5, 7, 9, 11, 13]}])
        self.assertEqual([d["name"] for d in report["digests"]], ["total", "sum"])
        self.assertEqual([row["mnemonic"] for row in report["profile"]][:2], ["mul", "add"])
        self.assertEqual(report["profile"][0]["flops"], 6)
        self.assertGreaterEqual(report["counters"]["instructions"], 5)

    def test_numbers_that_json_does_not_have_are_strings(self):
        self.write("nan.trek", '.trek 1.0\n.func main() {\n  %x = fill nan, shape=[], to=f32\n  emit "x", %x\n'
                   '  %y = fill -inf, shape=[2], to=f16\n  emit "y", %y\n}\n')
        self.run_trek("nan.trek", "--json", "r.json")
        values = [entry["value"] for entry in self.read_json("r.json")["emitted"]]
        self.assertEqual(values, ["nan", ["-inf", "-inf"]])

    def test_a_trace_is_one_that_perfetto_opens(self):
        self.run_trek(*self.given, "--trace", "t.json")
        events = self.read_json("t.json")["traceEvents"]
        slices = [event for event in events if event["ph"] == "X"]
        self.assertEqual([event["name"] for event in slices][:2], ["mul", "add"])
        for event in slices:
            self.assertGreaterEqual(event["dur"], 0)
            self.assertEqual(event["cat"], "main")
        self.assertEqual(slices[0]["args"]["text"], "%scaled = mul @left, $factor")

    def test_what_is_emitted_has_its_time_on_every_engine(self):
        self.write("slow.trek", ".trek 1.0\n.state @x f64[256,256] = 1\n.func main() {\n"
                   "  loop $i = 0 until 4 {\n    %y = matmul @x, @x\n    @x = mul %y, 1e-3\n"
                   "    emit \"i\", $i\n  }\n}\n")
        for engine in ("ref", "resident-host"):
            self.run_trek("slow.trek", "--engine", engine, "--trace", "t.json")
            times = [event["ts"] for event in self.read_json("t.json")["traceEvents"] if event["ph"] == "C"]
            self.assertEqual(len(times), 4)
            self.assertGreater(times[0], 0)
            self.assertLess(times[0], times[3])

    def test_an_instruction_is_counted_as_often_as_it_is_executed(self):
        self.write("nodes.trek", ".trek 1.0\n.state @x f32[1048576] = 1\n.output @s f32[]\n.output @n f32[]\n"
                   ".func main() {\n  loop $i = 0 until 3 {\n    @s = sum @x, axis=0\n"
                   "    @n, %c = clip_norm @x, max=1\n    @x = copy %c\n  }\n}\n")
        said = {}
        for engine in ("ref", "resident-host"):
            self.run_trek("nodes.trek", "--engine", engine, "--json", "r.json")
            said[engine] = {row["mnemonic"]: (row["calls"], row["flops"], row["bytes"])
                            for row in self.read_json("r.json")["profile"]}
        for mnemonic in ("sum", "clip_norm"):
            self.assertEqual(said["ref"][mnemonic][0], 3)
            self.assertEqual(said["ref"][mnemonic], said["resident-host"][mnemonic])

    def test_control_characters_do_not_reach_the_terminal(self):
        self.write("escape.trek", '.trek 1.0\n.func main() {\n  emit "a\\x1b[31mb", 1\n  trap "c\\x1b[2Jd"\n}\n')
        done = self.run_trek("escape.trek", code=3)
        self.assertEqual(done.stdout, "a?[31mb = 1\n")
        self.assertIn("c?[2Jd", done.stderr)
        self.assertNotIn("\x1b", done.stderr)

    def test_a_profile_names_lines_and_adds_up(self):
        out = self.run_trek(*self.given, "--engine", "ref", "--quiet", "--profile").stdout
        self.assertRegex(out, r"(?m)^ +8  %scaled = mul @left, \$factor +1 ")
        self.assertIn("Where the time went", out)
        self.assertRegex(out, r"(?m)^ +pointwise  add +2 ")

    def test_a_seed_changes_random_numbers_and_nothing_else(self):
        self.write("r.trek", ".trek 1.0\n.output @r f32[8]\n.output @z f32[8]\n.func main() {\n"
                   "  @r = uniform shape=[8], to=f32, key=1\n  @z = fill 1, shape=[8], to=f32\n}\n")
        runs = [self.run_trek("r.trek", "--digest", *seed).stdout.splitlines()
                for seed in ((), ("--seed", "0"), ("--seed", "7"), ("--seed", "7"))]
        self.assertEqual(runs[0], runs[1])
        self.assertEqual(runs[2], runs[3])
        self.assertNotEqual(runs[0][0], runs[2][0])
        self.assertEqual(runs[0][1], runs[2][1])

    def test_a_definition_changes_a_constant(self):
        self.write("c.trek", '.trek 1.0\n.const N = 2\n.func main() {\n  $n = copy N\n  emit "n", $n\n}\n')
        self.assertEqual(self.run_trek("c.trek").stdout, "n = 2\n")
        self.assertEqual(self.run_trek("c.trek", "-D", "N=5").stdout, "n = 5\n")
        self.run_trek("c.trek", tool="trek-as")
        self.assertIn("-D N: the constants of a binary module are fixed", self.fails("c.tkb", "-D", "N=5", code=2))

    def test_includes_are_looked_for_where_told(self):
        self.path("lib").mkdir()
        self.write("lib/one.trek", ".const ONE = 1\n")
        self.write("i.trek", '.trek 1.0\n.include "one.trek"\n.func main() {\n  $n = copy ONE\n  emit "n", $n\n}\n')
        self.fails("i.trek", code=2)
        self.assertEqual(self.run_trek("i.trek", "-I", "lib").stdout, "n = 1\n")

    def test_large_values_show_their_shape_and_first_elements(self):
        self.write("l.trek", '.trek 1.0\n.func main() {\n  %x = iota shape=[10,10], to=f32, axis=1\n'
                   '  emit "x", %x\n}\n')
        self.assertEqual(self.run_trek("l.trek").stdout, "x = f32[10,10] {0, 1, 2, 3, ...}\n")


class EmbeddedTests(CommandLine):
    """--test."""

    TESTS = """
.test "one and one" {
  @left = {{1, 1, 1}, {1, 1, 1}}
  $factor = 1.0
  expect @sum = {{2, 2, 2}, {2, 2, 2}}
}
.test "wrong" {
  @left = {{0, 0, 0}, {0, 0, 0}}
  expect @sum = {{1, 1, 1}, {1, 1, 0.5}}
}
.test "no trap" {
  @left = {{0, 0, 0}, {0, 0, 0}}
  expect trap divide-by-zero
}
"""

    def test_failures_show_place_and_both_values(self):
        self.write("add.trek", ADD + self.TESTS)
        done = self.run_trek("add.trek", "--test", code=3)
        self.assertIn("pass one and one\n", done.stdout)
        self.assertIn("FAIL wrong\n     @sum[1,2]: expected 0.5 (0x3f000000), found 1 (0x3f800000)\n", done.stdout)
        self.assertIn("FAIL no trap\n     expected trap divide-by-zero, but the program ended\n", done.stdout)
        self.assertTrue(done.stdout.endswith("1 passed, 2 failed\n"))

    def test_a_stream_is_given_block_by_block(self):
        self.write("s.trek", ".trek 1.0\n.stream @s f32[2]\n.output @sum f32[2]\n.output @count i64[]\n"
                   ".func main() {\n  $all = while carry $n = 0 {\n    %b, $more = next @s\n    test $more\n"
                   "    @sum = add @sum, %b\n    $m = add $n, 1\n    store! @count, $m, at=[]\n    yield $m\n  }\n}\n"
                   '.test "three blocks" {\n  @s = {1, 2}\n  @s = 10\n  @s = {100, 200}\n'
                   "  expect @sum = {111, 212}\n  expect @count = 3\n}\n"
                   '.test "one block" {\n  @s = 4\n  expect @sum = 4\n  expect @count = 1\n}\n'
                   '.test "two blocks, the sum of one" {\n  @s = 4\n  @s = 4\n  expect @sum = 4\n}\n')
        self.run_trek("s.trek", tool="trek-as")
        text = self.run_trek("s.tkb", tool="trek-dis").stdout
        self.assertEqual(text.count("  @s = "), 6)
        self.write("again.trek", text)
        for file in ("s.trek", "s.tkb", "again.trek"):
            out = self.run_trek(file, "--test", code=3).stdout
            self.assertTrue(out.startswith("pass three blocks\npass one block\nFAIL two blocks"), out)
            self.assertIn("@sum[0]: expected 4 (0x40800000), found 8", out)

    def test_each_test_begins_anew(self):
        self.write("count.trek", COUNT + '.test "a" {\n  expect @count = 3\n}\n.test "b" {\n  expect @count = 3\n}\n')
        self.assertEqual(self.run_trek("count.trek", "--test").stdout, "pass a\npass b\n2 passed, 0 failed\n")


class Terminal(CommandLine):
    """What is shown on a terminal, through a pseudo one."""

    PROGRAM = """.trek 1.0
.input @x f32[256,256] = 1
.func main() {
  loop $epoch = 0 until 3 {
    loop $step = 0 until 200 {
      %y = matmul @x, @x
    }
    emit "epoch", $epoch
  }
}
"""

    def shown(self, *arguments):
        master, slave = pty.openpty()
        running = subprocess.Popen([BIN / "trek-run", *arguments], cwd=self.folder, stdout=slave, stderr=slave)
        os.close(slave)
        text = b""
        while True:
            ready, _, _ = select.select([master], [], [], 100)
            try:
                piece = os.read(master, 65536) if ready else b""
            except OSError:  # the other side has closed
                piece = b""
            if not piece:
                break
            text += piece
        os.close(master)
        self.assertEqual(running.wait(), 0)
        return text.decode()

    def test_a_bar_and_a_line_per_trip(self):
        self.write("p.trek", self.PROGRAM)
        text = self.shown("p.trek", "--threads", "1")
        self.assertRegex(text, r"\[#*\.*\] +\d+ %")
        lines = [line for line in re.split(r"(?:\x1b\[K|\r|\n)+", text) if line and not line.startswith("[")]
        self.assertEqual(lines, ["1/3  epoch = 0", "2/3  epoch = 1", "3/3  epoch = 2"])

    def test_a_line_per_trip_however_fast_they_are(self):
        self.write("q.trek", ".trek 1.0\n.func main() {\n  loop $i = 0 until 30 {\n    emit \"i\", $i\n"
                   "    $j = mul $i, $i\n    emit \"j\", $j\n  }\n}\n")
        for engine in ((), ("--engine", "ref"), ("--engine", "resident-host")):
            lines = re.findall(r"\d+/\d+  i = \d+  j = \d+", self.shown("q.trek", *engine))
            self.assertEqual(lines, [f"{i + 1}/30  i = {i}  j = {i * i}" for i in range(30)])

    def test_quiet_shows_nothing(self):
        self.write("p.trek", self.PROGRAM)
        self.assertEqual(self.shown("p.trek", "--quiet"), "")


if __name__ == "__main__":
    unittest.main()
