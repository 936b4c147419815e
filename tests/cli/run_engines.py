#!/usr/bin/python3
"""trek-run and its engines: which is taken, what the JIT makes, moving from one to the other, tuning.

    TREK_BIN=build/dev/bin tests/cli/run_engines.py [Class[.test]]
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

from harness import BIN, COUNT, CommandLine


class DefaultEngine(CommandLine):
    """What executes a program where no engine is named: the best that is here."""

    def listed(self, **keywords):
        """The engines that can run, what is said of them, and the one that is the default."""
        said = self.run_trek("--list-engines", **keywords).stdout
        default = re.search(r"(?m)^without --engine: ([\w-]+), because \S.*$", said)
        self.assertIsNotNone(default, said)
        available = {line.split()[0]: line for line in said.splitlines() if line.split()[1] == "available"}
        return available, default[1]

    def taken(self, *arguments, **keywords):
        """The engine of a run, as its report describes it."""
        self.write("count.trek", COUNT)
        self.run_trek("count.trek", "--json", "r.json", *arguments, **keywords)
        return self.read_json("r.json")["engine"]

    def test_it_is_the_best_that_is_here(self):
        available, default = self.listed()
        on_gpu = "level sm_" in available.get("jit", "")
        best = ["auto"] * on_gpu + [name for name in ("resident", "jit", "ref") if name in available]
        self.assertEqual(default, best[0])

    def test_it_is_the_one_that_is_listed(self):
        _, default = self.listed()
        self.assertEqual(self.taken(), self.taken("--engine", default))

    def test_without_the_library_of_the_jit_and_a_gpu_it_is_ref(self):
        self.path("bin").mkdir()
        shutil.copy(BIN / "trek-run", self.path("bin/trek-run"))
        alone = {"tool": self.path("bin/trek-run"), "env": os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}}
        available, default = self.listed(**alone)
        self.assertNotIn("jit", available)
        self.assertEqual(default, "ref")
        self.assertEqual(self.taken(**alone), self.taken("--engine", "ref"))

    def test_a_trace_is_by_the_engine_that_has_one(self):
        self.assertEqual(self.taken("--trace", "t.json"), self.taken("--engine", "ref"))

    def test_a_trace_without_instructions_is_said(self):
        self.write("count.trek", COUNT)
        said = self.run_trek("count.trek", "--trace", "t.json", "--engine", "resident-host").stderr
        self.assertIn("warning: this engine has no times of single instructions", said)


class NoEngine(CommandLine):
    """Exit code 4: the engine is not there."""

    def test_an_unknown_engine_names_those_there_are(self):
        self.write("count.trek", COUNT)
        said = self.fails("count.trek", "--engine", "rev", code=4)
        self.assertIn("'rev'", said)
        self.assertIn("ref", said.replace("'rev'", ""))


CHAIN = """.trek 1.0
.input  @x f32[8,100]
.input  @b f32[100]
.output @y f32[8,100]
.func main() {
  %a = add @x, @b
  %e = exp %a
  @y = relu %e
}
"""


class Code(CommandLine):
    """--dump ir, asm, ptx and sass: what the engine jit makes of a program."""

    def setUp(self):
        super().setUp()
        listed = self.run_trek("--list-engines").stdout
        if not any(line.split()[:2] == ["jit", "available"] for line in listed.splitlines()):
            self.skipTest("trek-run --list-engines: " + listed)
        self.write("chain.trek", CHAIN)

    def on_device(self, form, code=0, **environment):
        self.write("simple.trek", CHAIN.replace("exp %a", "mul %a, %a"))
        return self.run_trek("--dump", form, "--device", "h200", "simple.trek", code=code,
                             env=os.environ | {"TREK_JIT_TARGET": "sm_90a"} | environment)

    def test_nothing_of_the_interpreter_is_left(self):
        code = self.run_trek("--dump", "ir", "chain.trek").stdout
        self.assertIn("; chain.trek:8:3: @y = relu %e\n", code)
        self.assertEqual(code.count("\ndefine "), 1, code)
        called = set(re.findall(r" call [^@\n]*@([\w.]+)\(", code))
        self.assertEqual([name for name in called if not name.startswith("llvm.")], [], code)
        self.assertNotIn("switch", code)

    def test_a_chain_is_made_of_vectors(self):
        self.assertRegex(self.run_trek("--dump", "ir", "chain.trek").stdout, r"fadd <\d+ x float>")

    def test_assembly_has_the_source_beside_it(self):
        code = self.run_trek("--dump", "asm", "chain.trek").stdout
        self.assertIn("# chain.trek:8:3: @y = relu %e\n", code)
        self.assertIn("node0.relu:\n", code)

    def test_threads_without_a_core_are_not_made(self):
        plan = self.run_trek("--dump", "plan", "--device", "here", "--engine", "jit", "--threads", "4096", "chain.trek",
                             env=os.environ | {"TREK_JIT_TARGET": "host"}).stdout
        self.assertLessEqual(int(re.search(r": (\d+) processors", plan)[1]), 4 * os.cpu_count())

    def test_ptx_is_the_persistent_kernel_with_the_node_as_straight_code(self):
        code = self.on_device("ptx").stdout
        self.assertIn(".visible .entry resident(", code)
        function = code[code.index("// simple.trek:8:3: @y = relu %e\n.func node_0(") :]
        function = function[: function.index("\n}\n")]
        self.assertNotIn("call", function)
        self.assertIn("ld.global.v4", function)
        self.assertIn("st.global.v4", function)
        self.assertNotIn("fma", function)

    def test_what_a_large_node_reads_comes_by_copies_to_shared_memory(self):
        self.write("large.trek", ".trek 1.0\n.state @x f32[2048,1024]\n.state @y f32[2048,1024]\n"
                   ".func main() {\n  @y = add @x, @y\n}\n")
        code = self.run_trek("--dump", "ptx", "--device", "h200", "large.trek",
                             env=os.environ | {"TREK_JIT_TARGET": "sm_90a"}).stdout
        self.assertNotIn("\n.func node_0(", code, "it is in line in the kernel")
        self.assertIn("// in line: large.trek:5:3: @y = add @x, @y\n.visible .entry resident(", code)
        self.assertIn("cp.async.wait_group 1", code)
        # Four times sixteen bytes of each operand in a turn; from memory itself what is behind the last turn.
        self.assertGreaterEqual(code.count("ld.shared.v2.u64"), 8)
        self.assertLessEqual(code.count("ld.global.v4"), 2)
        self.assertGreaterEqual(code.count("st.global.v4"), 4)

    def test_code_for_a_device_has_the_source_beside_it(self):
        self.assertIn("; simple.trek:8:3: @y = relu %e\n", self.on_device("ir").stdout)

    def test_sass_without_the_toolkit_says_what_is_missing(self):
        said = self.on_device("sass", code=4, TREK_PTXAS="").stderr
        self.assertIn("there is no ptxas on the PATH or in /usr/local/cuda", said)

    def test_sass_has_the_source_beside_it(self):
        # Stand-ins: the cubin is the PTX, whose functions are named as nvdisasm names them.
        self.write("ptxas", "#!/bin/sh\ncat \"$3\" >\"$5\"\n")
        self.write("nvdisasm", "#!/bin/sh\nsed -n 's/^.func \\(node_[0-9]*\\)($/$resident$\\1:/p' \"$2\"\n")
        tools = {}
        for tool in ("ptxas", "nvdisasm"):
            (self.folder / tool).chmod(0o700)
            tools["TREK_" + tool.upper()] = str(self.folder / tool)
        self.assertEqual(self.on_device("sass", **tools).stdout,
                         "// simple.trek:8:3: @y = relu %e\n$resident$node_0:\n")
        self.write("in_line.trek", ".trek 1.0\n.state @x f32[2048,1024]\n.func main() {\n  @x = add @x, 1.0\n}\n")
        said = self.run_trek("--dump", "sass", "--device", "h200", "in_line.trek",
                             env=os.environ | {"TREK_JIT_TARGET": "sm_90a"} | tools).stdout
        self.assertEqual(said, "// in line: in_line.trek:4:3: @x = add @x, 1.0\n")

    def test_sass_with_a_tool_that_fails_says_which_and_how(self):
        said = self.on_device("sass", code=4, TREK_PTXAS="/bin/false",
                              TREK_NVDISASM="/bin/false").stderr
        self.assertIn("assembling the code for sm_90a with /bin/false: exit code 1", said)


class Auto(CommandLine):
    """--engine auto: begins interpreted, moves to compiled code, and leaves what ref leaves."""

    def setUp(self):
        super().setUp()
        listed = self.run_trek("--list-engines").stdout
        if not any(line.split()[:2] == ["auto", "available"] for line in listed.splitlines()):
            self.skipTest("trek-run --list-engines: " + listed)
        self.program = Path(__file__).resolve().parents[1] / "gpu/hand_over.trek"

    def at(self, back_edge, *arguments, code=0):
        return self.run_trek(self.program, "--engine", "auto", *arguments, code=code,
                             env=os.environ | {"TREK_AUTO_AT": str(back_edge)})

    def test_wherever_it_moves_it_leaves_what_ref_leaves(self):
        want = self.run_trek(self.program, "--engine", "ref", "--digest").stdout
        for back_edge in (0, 1, 4, 7, 13, 19, 1000):
            got = self.at(back_edge, "--digest", "--json", "r.json").stdout
            self.assertEqual(got, want)
            compiling = self.read_json("r.json")["counters"]["compiling"]
            self.assertEqual(compiling["compiled"]["runs"], 0 if back_edge == 1000 else 1)
            if back_edge != 1000:
                self.assertEqual(compiling["interpreted"]["trips"], back_edge)

    def test_a_trap_behind_it_is_the_same(self):
        want = self.run_trek(self.program, "--engine", "ref", "--set", "bound=303", code=3).stderr
        for back_edge in (0, 9):
            self.assertEqual(self.at(back_edge, "--set", "bound=303", code=3).stderr, want)

    def test_profile_says_what_compiling_is_worth(self):
        said = self.at(5, "--profile").stdout
        self.assertRegex(said, r"compiled in .* meanwhile; the first run was over after ")
        self.assertRegex(said, r"interpreted: 5 trips in ")
        self.assertRegex(said, r"\n  compiled: \d+ trips in ")
        self.assertIn("compiling is ", said)

    def test_an_interrupted_program_does_not_wait_for_its_code(self):
        self.write("long.trek", ".trek 1.0\n.state @x f32[20,20] = 1\n.func main() {\n  loop $i = 0 until 1000000000000 {\n"
                   "    %y = matmul @x, @x, tail=tanh\n    %z = softmax %y, axis=1\n    @x = sort %z, axis=0\n  }\n}\n")
        running = self.start("long.trek", "--engine", "auto", "--quiet")
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130)

    def test_a_place_that_is_no_number_is_refused(self):
        self.assertIn("TREK_AUTO_AT=soon", self.at("soon", code=4).stderr)


class Tuning(CommandLine):
    """--tune measures tiles, remembers them and says what it tried."""

    PRODUCTS = """.trek 1.0
.state @a f32[130,96] = normal(0, 1, key=1)
.state @b f32[96,130] = normal(0, 1, key=2)
.state @c f32[130,130]
.state @d f32[96,96]
.func main() {
  @c = matmul @a, @b
  @d = matmul @b, @a
}
"""

    def setUp(self):
        super().setUp()
        self.write("products.trek", self.PRODUCTS)

    def trek(self, *arguments, engine="resident-host", tuned="tiles.json", code=0):
        return self.run_trek("products.trek", "--engine", engine, "--digest", *arguments, code=code,
                             env=os.environ | {"TREK_TUNED": tuned})

    def digests(self, done):
        return [line for line in done.stdout.splitlines() if line.startswith("@")]

    def test_what_was_tried_is_shown_kept_and_used(self):
        before = self.trek()
        self.assertFalse(self.path("tiles.json").exists())
        tuned = self.trek("--tune", "--json", "run.json", "--profile")
        for part in ("f32 130x130x96, on 2 of 4 processors  ; products.trek:7:3\n", "f32 96x96x130", "the cost model's",
                     "Tiles of 2 products measured on", "kept in tiles.json", "times as long as the fastest",
                     "tiles: tuned, 2 of 2 products as measured"):
            self.assertIn(part, tuned.stdout)
        tuning = self.read_json("run.json")["tuning"]
        self.assertEqual([product["at"][0]["line"] for product in tuning["products"]], [7, 8])
        for product in tuning["products"]:
            self.assertGreater(product["tried"][product["now"]]["seconds"]["median"], 0)
        entries = self.read_json("tiles.json")["tiles"]
        self.assertEqual([entry["m"] for entry in entries], [130, 96])
        after = self.trek("--profile")
        self.assertIn("tiles: tuned, 2 of 2 products as measured", after.stdout)
        for run in (tuned, after):
            self.assertEqual(self.digests(run), self.digests(before))
        self.assertNotIn("tuned", self.trek("--profile", tuned="off").stdout)

    def test_a_plan_for_the_device_of_an_engine_says_which_tiles_are_tuned(self):
        self.trek("--tune", "--quiet")
        dump = ("products.trek", "--engine", "resident-host", "--dump", "plan", "--device")
        environment = os.environ | {"TREK_TUNED": "tiles.json"}
        self.assertEqual(self.run_trek(*dump, "here", env=environment).stdout.count("[tiles: tuned]"), 2)
        self.assertNotIn("tuned", self.run_trek(*dump, "h200", env=environment).stdout)

    def test_tuning_for_no_file(self):
        self.assertIn("not kept", self.trek("--tune", tuned="off").stdout)

    def test_an_engine_without_tiles_is_refused(self):
        said = self.trek("--tune", engine="ref", code=1).stderr
        self.assertIn("the engine ref has nothing to tune", said)

    def test_a_damaged_file_is_a_warning_and_stays(self):
        for text, said in (("{ no", "tiles.json:1:4: is no JSON"), ("[]", "is no file of tiles")):
            self.write("tiles.json", text)
            done = self.trek("--tune")
            self.assertIn(said, done.stderr)
            self.assertIn("not kept", done.stdout)
            self.assertEqual(self.path("tiles.json").read_text(encoding="utf-8"), text)

    def test_a_folder_that_cannot_be_written_is_a_warning(self):
        self.write("file", "")
        done = self.trek("--tune", tuned="file/tiles.json")
        self.assertIn("file/tiles.json", done.stderr)
        self.assertEqual(len(self.digests(done)), 4)

    def test_a_device_in_place_of_the_file_is_a_warning(self):
        self.assertIn("/dev/full: is no file", self.trek("--tune", tuned="/dev/full").stderr)

    def test_a_full_disk_is_a_warning(self):
        def fill():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
        done = subprocess.run([BIN / "trek-run", "products.trek", "--engine", "resident-host", "--tune"],
                              cwd=self.folder, env=os.environ | {"TREK_TUNED": "tiles.json"}, check=False,
                              preexec_fn=fill, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("trek-run: warning: ", done.stderr)
        self.assertIn("tiles.json", done.stderr)
        self.assertFalse(self.path("tiles.json").exists())

    def test_ctrl_c_keeps_what_was_measured(self):
        shapes = range(64, 2048, 64)
        lines = [".trek 1.0"]
        for size in shapes:
            lines += [f".state @a{size} f32[{size},{size}]", f".state @c{size} f32[{size},{size}]"]
        lines += [".func main() {"] + [f"  @c{size} = matmul @a{size}, @a{size}" for size in shapes] + ["}"]
        self.write("many.trek", "\n".join(lines))
        running = self.start("many.trek", "--engine", "resident-host", "--tune",
                             env=os.environ | {"TREK_TUNED": str(self.path("tiles.json"))})
        self.addCleanup(running.kill)
        for _ in range(3000):
            if self.path("tiles.json").exists():
                break
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130)
        self.assertRegex(said, r"stopped: \d+ products were not measured")
        self.assertGreaterEqual(len(self.read_json("tiles.json")["tiles"]), 1)

    def test_runs_or_tests_but_not_both(self):
        self.assertIn("--test", self.fails("products.trek", "--tune", "--test", code=1))
        self.assertIn("--dump", self.fails("products.trek", "--tune", "--dump", "plan", code=1))


if __name__ == "__main__":
    unittest.main()
