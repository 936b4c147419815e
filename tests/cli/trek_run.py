#!/usr/bin/python3
"""trek-run as a user meets it: what it prints, what it writes, and how it ends.

    TREK_BIN=build/dev/bin tests/cli/trek_run.py [Class[.test]]
"""

import os
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

import numpy as np

from harness import ADD, BIN, COUNT, CommandLine, read_safetensors, write_safetensors


class WrongUsage(CommandLine):
    """Exit code 1: the command line itself is wrong."""

    def test_no_file(self):
        self.assertIn("no FILE", self.fails(code=1))

    def test_unknown_option(self):
        self.assertIn("--digets", self.fails("a.trek", "--digets", code=1))

    def test_assignment_without_a_value(self):
        self.assertIn("--input left: wanted NAME=VALUE", self.fails("a.trek", "--input", "left", code=1))
        self.assertIn("--set factor=: wanted NAME=VALUE", self.fails("a.trek", "--set", "factor=", code=1))

    def test_all_mistakes_are_reported_at_once(self):
        said = self.fails("a.trek", "--set", "x", "--limit-memory", "5X", "--output", "y=y.txt", code=1)
        for part in ("--set x", "--limit-memory 5X", "y.txt"):
            self.assertIn(part, said)

    def test_a_name_given_twice(self):
        self.assertIn("twice", self.fails("a.trek", "--set", "x=1", "--set", "$x=2", code=1))

    def test_a_file_written_twice(self):
        self.assertIn("twice", self.fails("a.trek", "--save", "o.json", "--json", "o.json", code=1))

    def test_numbers_out_of_range(self):
        for option, value in (("--threads", "-1"), ("--threads", "1e3"), ("--seed", "-1"), ("--seed", str(2**64)),
                              ("--limit-instructions", "many"), ("--limit-memory", "0"),
                              ("--limit-memory", "99999999999G"), ("--numerics", "exact")):
            self.assertIn(option, self.fails("a.trek", option, value, code=1))

    def test_a_dump_runs_nothing(self):
        self.assertIn("--dump runs nothing", self.fails("a.trek", "--dump", "plan", "--digest", code=1))
        self.assertIn("--dump runs nothing", self.fails("a.trek", "--dump", "fusion", "--test", code=1))
        self.assertIn("--dump", self.fails("a.trek", "--dump", "everything", code=1))
        self.assertIn("--device", self.fails("a.trek", "--dump", "plan", "--device", "toaster", code=1))

    def test_help_and_version_are_no_errors(self):
        self.assertIn("--limit-memory", self.run_trek("--help").stdout)
        self.assertRegex(self.run_trek("--version").stdout, r"^trek-run \d+\.\d+\.\d+ \(ISA \d+\.\d+\)\n$")

    def test_engines_are_listed(self):
        self.assertRegex(self.run_trek("--list-engines").stdout, r"(?m)^ref +available +\S")

    def test_help_says_what_is_taken_without_an_engine(self):
        self.assertRegex(self.run_trek("--help").stdout, r"--engine NAME\s+What executes the program; else the best")


class InvalidInput(CommandLine):
    """Exit code 2: a file or a name that the command line gives is wrong."""

    def setUp(self):
        super().setUp()
        self.write("add.trek", ADD)
        self.npy("left.npy", [[1, 2, 3], [4, 5, 6]], np.float32)

    def invalid(self, *arguments):
        return self.fails(*arguments, code=2)

    def test_a_program_that_is_not_there(self):
        self.assertIn("nowhere.trek", self.invalid("nowhere.trek"))

    def test_a_folder_for_a_program(self):
        self.assertIn("director", self.invalid("."))

    def test_an_empty_file(self):
        self.write("empty.trek", "")
        self.assertIn("error[", self.invalid("empty.trek"))

    def test_a_binary_that_is_cut_or_changed(self):
        self.run_trek("add.trek", "-o", "add.tkb", tool="trek-as")
        whole = self.path("add.tkb").read_bytes()
        for name, data in (("cut.tkb", whole[:-9]), ("short.tkb", whole[:6]),
                           ("flipped.tkb", whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])):
            self.path(name).write_bytes(data)
            said = self.invalid(name)
            self.assertIn(name, said)
            self.assertEqual(said.count("error["), 1, said)

    def test_an_error_in_the_text_shows_its_line(self):
        self.write("bad.trek", ADD.replace("add %scaled", "ad %scaled"))
        said = self.invalid("bad.trek")
        self.assertIn("bad.trek:9:10: error[unknown-instruction]", said)
        self.assertIn("^", said)

    def test_names_that_are_misspelt_get_a_suggestion_all_at_once(self):
        said = self.invalid("add.trek", "--input", "lefd=left.npy", "--set", "factr=1", "--output", "@summ=o.npy")
        for name, meant in (("@lefd", "@left"), ("$factr", "$factor"), ("@summ", "@sum")):
            self.assertIn(f"'{name}'", said)
            self.assertIn(f"did you mean '{meant}'?", said)

    def test_a_name_of_another_role(self):
        self.assertIn("'@total' is of role state", self.invalid("add.trek", "--input", "total=left.npy"))
        self.assertIn("'@left' is of role input", self.invalid("add.trek", "--output", "left=o.npy"))

    def test_an_input_without_data(self):
        said = self.invalid("add.trek")
        self.assertIn("@left f32[2,3] has no data", said)
        self.assertIn("--input left=FILE", said)
        self.assertNotIn("@right", said)

    def test_data_of_another_shape_or_type(self):
        self.npy("five.npy", [1, 2, 3, 4, 5], np.float32)
        said = self.invalid("add.trek", "--input", "left=five.npy")
        self.assertIn("error[data-shape]", said)
        self.assertIn("[2,3]", said)
        self.npy("ints.npy", [[1, 2, 3], [4, 5, 6]], np.int32)
        said = self.invalid("add.trek", "--input", "left=ints.npy")
        self.assertIn("error[data-type]", said)

    def test_data_that_is_cut(self):
        whole = self.path("left.npy").read_bytes()
        for size in (len(whole) - 4, 100, 7, 0):
            self.path("cut.npy").write_bytes(whole[:size])
            self.assertIn("cut.npy", self.invalid("add.trek", "--input", "left=cut.npy"))

    def test_data_in_an_unknown_form(self):
        self.write("left.csv", "1,2,3\n4,5,6\n")
        self.assertIn("left.csv", self.invalid("add.trek", "--input", "left=left.csv"))

    def test_a_value_that_is_none(self):
        for value in ("abc", "1.5x", "1e99"):
            said = self.invalid("add.trek", "--input", "left=left.npy", "--set", f"factor={value}")
            self.assertIn(f"'{value}' is not a value of $factor f32", said)
        self.write("count.trek", COUNT)
        for value in ("1.5", "0x", "9223372036854775808"):
            self.assertIn("$trips i64", self.invalid("count.trek", "--set", f"trips={value}"))

    def test_a_state_of_another_program(self):
        write_safetensors(self.path("other.safetensors"),
                          {"totl": np.zeros((2, 3), np.float32), "extra": np.zeros(1, np.float32)})
        said = self.invalid("add.trek", "--input", "left=left.npy", "--state", "other.safetensors")
        for part in ("no tensor for the state @total f32[2,3]", "'totl'", "did you mean '@total'?", "'extra'"):
            self.assertIn(part, said)
        write_safetensors(self.path("shape.safetensors"), {"total": np.zeros((3, 2), np.float32)})
        self.assertIn("is f32[3,2], the state is f32[2,3]",
                      self.invalid("add.trek", "--input", "left=left.npy", "--state", "shape.safetensors"))

    def test_a_referenced_file_that_has_changed(self):
        self.npy("w.npy", [1, 2], np.float32)
        self.write("ext.trek", '.trek 1.0\n.data @w f32[2] = extern npy("w.npy")\n.output @y f32[2]\n'
                   '.func main() {\n  @y = copy @w\n}\n')
        self.run_trek("ext.trek", "-o", "ext.tkb", tool="trek-as")
        self.run_trek("ext.tkb")
        self.npy("w.npy", [1, 3], np.float32)
        said = self.invalid("ext.tkb")
        self.assertIn("error[data-hash]", said)
        self.assertIn("w.npy", said)

    def test_an_input_with_a_default_file_that_is_not_there_can_be_given_another(self):
        self.npy("w.npy", [1, 2], np.float32)
        self.write("ext.trek", '.trek 1.0\n.input @w f32[2] = extern npy("w.npy")\n.output @y f32[2]\n'
                   '.func main() {\n  @y = copy @w\n}\n')
        self.run_trek("ext.trek", "-o", "ext.tkb", tool="trek-as")
        os.rename(self.path("w.npy"), self.path("v.npy"))
        self.assertIn("--input w=FILE", self.invalid("ext.tkb"))
        self.run_trek("ext.tkb", "--input", "w=v.npy")

    def test_a_file_without_tests(self):
        self.assertIn("has no tests", self.invalid("add.trek", "--test"))


PICK = """.trek 1.0
.input @index i64[2,2] = {{0, 3}, {12, 1}}
.data  @table f32[10,4] = 0
.output @y f32[2,2,4]
.state @before f32[] = 0
.func pick(%i i64[2,2]) -> (f32[2,2,4]) {
  %rows = gather @table, %i  ; here
  return %rows
}
.func main() {
  store! @before, 1.0, at=[]
  %i = copy @index
  %rows = call pick(%i)
  @y = copy %rows
}
"""


class Faults(CommandLine):
    """Exit code 3: the program trapped, or reached a limit."""

    def test_a_trap_names_its_place_operands_and_element(self):
        self.write("pick.trek", PICK)
        said = self.fails("pick.trek", code=3)
        self.assertIn("pick.trek:7:3: trap[index-out-of-range]:", said)
        self.assertIn("12", said.splitlines()[0])
        self.assertIn("    7 |   %rows = gather @table, %i  ; here\n"
                      "      |   ^~~~~~~~~~~~~~~~~~~~~~~~~\n", said)
        self.assertIn("in function pick", said)
        self.assertIn("called at pick.trek:13:3 in main", said)
        self.assertRegex(said, r"(?m)^  x +@table f32\[10,4\]$")
        self.assertRegex(said, r"(?m)^  index +%i i64\[2,2\], element \[1,0\]$")

    def test_a_trap_without_debug_sections_names_function_and_instruction(self):
        self.write("pick.trek", PICK)
        self.run_trek("pick.trek", "-o", "pick.tkb", tool="trek-as")
        self.assertIn("trap[index-out-of-range]", self.fails("pick.tkb", code=3))

    def test_a_division_by_zero_names_the_element_of_the_result(self):
        self.write("div.trek", ".trek 1.0\n.input @a i32[2,3] = 7\n.input @b i32[3] = {1, 0, 2}\n"
                   ".output @y i32[2,3]\n.func main() {\n  @y = div @a, @b\n}\n")
        said = self.fails("div.trek", code=3)
        self.assertIn("trap[divide-by-zero]", said)
        self.assertIn("result i32[2,3], element [0,1]", said)

    def test_a_trap_instruction_says_its_message(self):
        self.write("t.trek", '.trek 1.0\n.func main() {\n  trap "no such thing"\n}\n')
        self.assertIn("t.trek:3:3: trap[explicit]: no such thing", self.fails("t.trek", code=3))

    def test_after_a_trap_state_is_not_saved_but_reports_are_written(self):
        self.write("pick.trek", PICK)
        self.fails("pick.trek", "--save", "s.safetensors", "--output", "y=y.npy", "--json", "r.json",
                   "--trace", "t.json", code=3)
        self.assertFalse(self.path("s.safetensors").exists())
        self.assertFalse(self.path("y.npy").exists())
        trap = self.read_json("r.json")["result"]["trap"]
        self.assertEqual((trap["code"], trap["element"], trap["at"]["line"]), ("index-out-of-range", 2, 7))
        self.assertEqual(trap["callers"][0]["function"], "main")
        self.assertTrue(self.read_json("t.json")["traceEvents"])

    def test_an_instruction_limit_says_where_and_saves(self):
        self.write("count.trek", COUNT)
        said = self.fails("count.trek", "--set", "trips=1000000000", "--limit-instructions", "1000",
                          "--save", "s.safetensors", code=3)
        self.assertIn("limit reached", said)
        self.assertIn("count.trek:", said)
        self.assertIn("1000", said)
        self.assertGreater(read_safetensors(self.path("s.safetensors"))["count"], 100)

    def test_a_memory_limit(self):
        self.write("big.trek", ".trek 1.0\n.state @x f32[1024,1024] = 0\n.func main() {\n}\n")
        self.run_trek("big.trek", "--limit-memory", "16M")
        said = self.fails("big.trek", "--limit-memory", "2M", code=3)
        self.assertIn("memory", said)


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

    def test_code_for_a_device_has_the_source_beside_it(self):
        self.assertIn("; simple.trek:8:3: @y = relu %e\n", self.on_device("ir").stdout)

    def test_sass_without_the_toolkit_says_what_is_missing(self):
        said = self.on_device("sass", code=4, PATH="/nonexistent").stderr
        self.assertIn("there is no ptxas on the PATH", said)


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


class NoOutput(CommandLine):
    """Exit code 5: something that was asked for could not be written."""

    def setUp(self):
        super().setUp()
        self.write("count.trek", COUNT)

    def test_a_folder_that_is_not_there_is_found_before_the_run(self):
        for option, file in (("--save", "no/s.safetensors"), ("--output", "count=no/c.npy"), ("--json", "no/r.json"),
                             ("--trace", "no/t.json")):
            begin = time.monotonic()
            said = self.fails("count.trek", "--set", "trips=1000000000000", option, file, code=5)
            self.assertIn("no/", said)
            self.assertLess(time.monotonic() - begin, 20)

    def test_a_folder_in_place_of_a_file(self):
        self.path("d.npy").mkdir()
        self.assertIn("directory", self.fails("count.trek", "--output", "count=d.npy", code=5))

    def test_a_full_disk(self):
        for option, file in (("--save", "/dev/full"), ("--output", "count=/dev/full"), ("--json", "/dev/full"),
                             ("--trace", "/dev/full")):
            self.assertIn("/dev/full", self.fails("count.trek", option, file, code=5))

    def test_a_full_disk_behind_stdout_still_saves(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            self.run_trek("count.trek", "--digest", "--save", "s.safetensors", stdout=full, code=5)
        self.assertEqual(read_safetensors(self.path("s.safetensors"))["count"], 3)

    def test_a_reader_that_goes_away_does_not_end_the_run(self):
        self.write("emit.trek", COUNT.replace("store!", 'emit "n", $m\n    store!'))
        read, write = os.pipe()
        os.close(read)
        self.run_trek("emit.trek", "--save", "s.safetensors", stdout=write, code=5)
        os.close(write)
        self.assertEqual(read_safetensors(self.path("s.safetensors"))["count"], 3)

    def test_a_file_that_cannot_be_replaced_keeps_what_it_held(self):
        self.run_trek("count.trek", "--save", "s.safetensors")
        before = self.path("s.safetensors").read_bytes()
        self.fails("count.trek", "--state", "s.safetensors", "--save", "s.safetensors", "--json", "no/r.json", code=5)
        self.assertEqual(self.path("s.safetensors").read_bytes(), before)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["count.trek", "s.safetensors"])


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
