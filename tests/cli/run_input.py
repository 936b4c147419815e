#!/usr/bin/python3
"""trek-run and what it is given: options, files, programs that trap.

    TREK_BIN=build/dev/bin tests/cli/run_input.py [Class[.test]]
"""

import os
import time
import unittest

import numpy as np

from harness import ADD, COUNT, CommandLine, read_safetensors, write_safetensors


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
        self.assertIn("error[file-unreadable]", self.invalid("ext.trek"))
        self.run_trek("ext.trek", "--input", "w=v.npy")

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
        for arguments in (["--list-engines"], ["--dump", "plan", "--device", "h200", "count.trek"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                self.assertIn("could not be written", self.fails(*arguments, code=5, stdout=full))
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


if __name__ == "__main__":
    unittest.main()
