#include "tests/unit/assembler/assembled.h"

using namespace trek;
using namespace trek::tests;

namespace {

std::string shown(const std::string& line, uint32_t column, uint32_t length, bool colour = false) {
  SourceManager sources;
  const auto file = sources.add("a.trek", "first\n" + line + "\n");
  isa::Problem problem;
  problem.code = isa::ErrorCode::Alias;
  problem.message = "message";
  problem.where = {*file, 2, column, length};
  RenderOptions options;
  options.colour = colour;
  return render(problem, sources, options);
}

}  // namespace

TEST_CASE("a problem shows its line with the range underlined") {
  CHECK(shown("abc def", 5, 3) ==
        "a.trek:2:5: error[alias]: message\n    2 | abc def\n      |     ^~~\n");
}

TEST_CASE("the caret stands below what it means, whatever the bytes before it") {
  CHECK(shown("\t\xC3\xA9 x", 5, 1).find("\n      |    ^\n") != std::string::npos);
  CHECK(shown("\xFF\x1B[2J x", 7, 1).find("??[2J x") != std::string::npos);
}

TEST_CASE("a range beyond its line is cut off, and a long line is shown around it") {
  CHECK(shown("ab", 9, 100) == "a.trek:2:9: error[alias]: message\n    2 | ab\n      |   ^\n");
  const std::string text = shown(std::string(5000, 'a') + "!" + std::string(5000, 'b'), 5001, 1);
  CHECK(text.size() < 500);
  CHECK(text.find("...") != std::string::npos);
  CHECK(text.find('!') != std::string::npos);
}

TEST_CASE("colours appear only when asked for") {
  CHECK(shown("abc", 1, 1).find('\033') == std::string::npos);
  CHECK(shown("abc", 1, 1, true).find("\033[1;31merror[alias]:") != std::string::npos);
}

TEST_CASE("a problem without a line names its file and place") {
  isa::Problem problem;
  problem.code = isa::ErrorCode::Checksum;
  problem.message = "changed";
  problem.place = "section words";
  problem.help = "copy it again";
  RenderOptions options;
  options.file = "m.tkb";
  CHECK(render(problem, {}, options) ==
        "m.tkb: error[checksum]: changed (section words)\nhelp: copy it again\n");
}

TEST_CASE("the trail of a problem names what was expanded on the way") {
  const Assembly assembly = assemble_text(
      "t.trek",
      ".trek 1.0\n.macro m X {\n.repeat I = 0 until 1 {\nfoo\n}\n}\n.func main() {\nm 1\n}\n");
  const std::string text = render(assembly.problems, assembly.sources);
  CHECK(text.find("t.trek:4:1: error[unknown-instruction]") == 0);
  CHECK(text.find("t.trek:3:9: note: in the repetition with I = 0\n") != std::string::npos);
  CHECK(text.find("t.trek:8:1: note: in expansion of macro 'm'\n") != std::string::npos);
}

TEST_CASE("a file is read once however it is named, and what cannot be read is said") {
  SourceManager sources;
  const auto first = sources.read("assembler/README.md");
  REQUIRE(first.ok());
  CHECK(*sources.read("assembler/../assembler/README.md") == *first);
  CHECK(sources.folder(*first) == "assembler/");
  CHECK(sources.line(*first, 1) == "# assembler: text and modules");
  CHECK(sources.line(*first, 1000000).empty());
  CHECK_FALSE(sources.read("assembler").ok());
  CHECK_FALSE(sources.read("no such file").ok());
}
