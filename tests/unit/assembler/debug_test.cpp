// What a disassembly needs to look like its source.
#include "assembler/printer.h"
#include "tests/unit/assembler/assembled.h"

using namespace trek;
using namespace trek::tests;

namespace {

std::string spellings(const Assembly& assembly) {
  std::string out;
  for (const auto& spelling : assembly.module.debug.spellings) {
    if (!out.empty()) out += " | ";
    out += std::to_string(spelling.index) + "." + std::to_string(spelling.slot) + "." +
           std::to_string(spelling.element) + " " + assembly.module.string(spelling.text);
  }
  return out;
}

std::string comments(const Assembly& assembly) {
  std::string out;
  for (const auto& comment : assembly.module.debug.comments)
    out += std::to_string(comment.instruction) + (comment.trailing ? ">" : "<") +
           assembly.module.string(comment.text) + "#";
  return out;
}

}  // namespace

TEST_CASE("a constant is spelt where it was more than a decimal number") {
  const std::string text =
      ".const B = 2\n.input @x f32[B,3]\n.output @y f32[2,3]\n.func main() {\n";
  CHECK(spellings(assembled(text + "@y = mul @x, 1/255\n}\n")) == "0.2.0 1/255 | 0.0.0 B");
  CHECK(spellings(assembled(text + "@y = mul @x, -0.5\n}\n")) == "0.0.0 B");
  CHECK(spellings(assembled(text + "%a = slice @x, at=[0,0x1], size=[B,1 + 1]\n}\n")) ==
        "0.2.1 0x1 | 0.3.0 B | 0.3.1 1 + 1 | 0.0.0 B");
  // A default is absent in the module, and a macro's constants are not in it.
  CHECK(spellings(assembled(text + "%a = softmax @x, axis=0 - 1\n}\n")) == "0.0.0 B");
  CHECK(spellings(assembled(".macro m N {\n%a = softmax @x, axis=N - 2\n}\n" + text +
                            "m 2\n}\n")) == "0.0.0 B");
}

TEST_CASE("comments belong to the instruction after them or before them on their line") {
  const std::string body =
      "; first\n\n\n; second\n%a = copy @x ; end of a\n\n%b = slice %a, at=[0, ; inside\n0], "
      "size=[1,1]\nloop $i = 0 until 2 { ; opens\n"
      "; in the loop\n} ; closes\n; last";
  CHECK(comments(assembled(in_main(body))) ==
        "0<; first\n\n; second#0>; end of a#1<\n; inside#2>; opens#3<; in the loop#3>; closes#4<; "
        "last#");
}

TEST_CASE("items keep the order of declarations, comments and blank lines") {
  const Assembly assembly =
      assemble_text("test.trek",
                    "; before\n.trek 1.0 ; version\n; head\n\n\n.const A = 1 ; one\n.input @x "
                    "f32[A]\n\n.func main() { ; begins\n}\n.test \"t\" "
                    "{\n}\n");
  using Kind = isa::Debug::ItemKind;
  const auto& items = assembly.module.debug.items;
  std::vector<Kind> kinds;
  for (const auto& item : items) kinds.push_back(item.kind);
  CHECK(kinds == std::vector{Kind::comment, Kind::version, Kind::comment, Kind::blank,
                             Kind::constant, Kind::tensor, Kind::blank, Kind::function,
                             Kind::test});
  CHECK(assembly.module.string(items[1].comment) == "; version");
  CHECK(assembly.module.string(items[4].comment) == "; one");
  CHECK(assembly.module.string(items[7].comment) == "; begins");
}

TEST_CASE("every instruction has its place") {
  const Assembly assembly = assembled(".func main() {\n  $a = add 1, 2\n  if true {\n  }\n}\n");
  const auto& lines = assembly.module.debug.lines[0].code;
  REQUIRE(lines.size() == main_of(assembly).code.size());
  CHECK((lines[0] == isa::Location{0, 3, 3}));
  CHECK((lines[1] == isa::Location{0, 4, 3}));
  CHECK((lines[2] == isa::Location{0, 5, 3}));
  CHECK(assembly.module.debug.files == std::vector<std::string>{"test.trek"});
}

TEST_CASE("a register without a name is called after its number, unless another is called so") {
  Assembly assembly = assembled(
      ".input @x f32[2]\n.output @y f32[2]\n.func main() {\n%v4 = add @x, @x\n%v1_ = add %v4, @x\n"
      "%c = add %v1_, %v4\n%v03 = add %c, %c\n%e = add %v03, @x\n%v9 = add %e, %v4\n@y = add %v9, "
      "%v1_\n}\n");
  std::vector<uint32_t>& names = assembly.module.debug.names[0].values;
  for (uint32_t value : {2U, 4U}) names[value] = 0;
  std::swap(names[0], names[1]);
  CHECK(print(assembly.module) ==
        ".trek 1.0\n.input @x f32[2]\n.output @y f32[2]\n.func main() {\n  %v1_ = add @x, @x\n"
        "  %v4 = add %v1_, @x\n  %v2 = add %v4, %v1_\n  %v03 = add %v2, %v2\n"
        "  %v4_ = add %v03, @x\n  %v9 = add %v4_, %v1_\n  @y = add %v9, %v4\n}\n");
}
