#include "assembler/format.h"

#include <catch2/catch.hpp>

using namespace trek;

namespace {

std::string formatted(const std::string& text) {
  SourceManager sources;
  const auto file = sources.add("t", text);
  const auto out = format_source(sources, *file);
  REQUIRE(out.ok());
  const auto again = sources.add("t", *out);
  CHECK(*format_source(sources, *again) == *out);
  return *out;
}

bool is_refused(const std::string& text) {
  SourceManager sources;
  return !format_source(sources, *sources.add("t", text)).ok();
}

}  // namespace

TEST_CASE("blanks between tokens are those that belong there") {
  CHECK(formatted("%a=matmul   %x ,@w, tail = relu") == "%a = matmul %x, @w, tail=relu\n");
  CHECK(formatted("slice @x,at=[ $i , 0 ]") == "slice @x, at=[$i,0]\n");
  CHECK(formatted(".state @w f32[ 2 ,3 ]=normal( 0,1 , key = 1 )") ==
        ".state @w f32[2,3] = normal(0, 1, key=1)\n");
  CHECK(formatted("sgd! @w , %g") == "sgd! @w, %g\n");
  CHECK(formatted(".data @t f32[2,1] = { {1} , {-2} }") == ".data @t f32[2,1] = {{1}, {-2}}\n");
  CHECK(formatted(".func f( %w!  f32[2] )->( f32[2],i64 ){\n}") ==
        ".func f(%w! f32[2]) -> (f32[2], i64) {\n}\n");
}

TEST_CASE("an expression keeps its author's blanks around operators") {
  CHECK(formatted(".const A=1/255") == ".const A = 1/255\n");
  CHECK(formatted(".const A =  1  +  2*3") == ".const A = 1 + 2*3\n");
  CHECK(formatted(".const A = - 1 + ~ 2") == ".const A = -1 + ~2\n");
  CHECK(formatted("loop $i = 0 until -1") == "loop $i = 0 until -1\n");
}

TEST_CASE("an operator before a bracket keeps its author's blanks") {
  CHECK(formatted("a= f32*[1]") == "a=f32*[1]\n");
  CHECK(formatted("a f32 *[1]") == "a f32 *[1]\n");
  CHECK(formatted("a f32* [1]") == "a f32 * [1]\n");
  CHECK(formatted("a f32* (1)") == "a f32 * (1)\n");
}

TEST_CASE("what stands apart and would be another token together stays apart") {
  CHECK(formatted("a= = b") == "a= = b\n");
  CHECK(formatted("(% x, - > y)") == "(% x, - >y)\n");
  CHECK(formatted("a - & & b") == "a - & &b\n");
  CHECK(formatted("% {\n}") == "% {\n}\n");
}

TEST_CASE("indentation follows braces, and lines that go on have two blanks more") {
  CHECK(formatted(".func main() {\nloop $i = 0 until 2 {\n%a = copy @x\n}\n}") ==
        ".func main() {\n  loop $i = 0 until 2 {\n    %a = copy @x\n  }\n}\n");
  CHECK(formatted("%a = reshape @x, shape=[\n1,\n2\n]") ==
        "%a = reshape @x, shape=[\n  1,\n  2\n]\n");
}

TEST_CASE("blank lines are one at most, and none begins or ends a file") {
  CHECK(formatted("\n\na\n\n\n\nb\n\n\n") == "a\n\nb\n");
  CHECK(formatted("").empty());
}

TEST_CASE("comments of neighbouring lines begin in one column") {
  CHECK(formatted("a ;one\nlonger   ; two\n; alone\nb ; three") ==
        "a       ; one\nlonger  ; two\n; alone\nb  ; three\n");
}

TEST_CASE("definitions of neighbouring lines have their equals signs in one column") {
  CHECK(formatted("%a = x\n%abc = y\n%d, %e = z\n%fg = w") ==
        "%a   = x\n%abc = y\n%d, %e = z\n%fg  = w\n");
  CHECK(formatted("%a = x\n\n%abc = y") == "%a = x\n\n%abc = y\n");
  CHECK(formatted("%a = x\n%a_very_long_name_indeed = y") ==
        "%a = x\n%a_very_long_name_indeed = y\n");
  CHECK(formatted(".input @x f32[1]\n.output @y f32[1]") ==
        ".input  @x f32[1]\n.output @y f32[1]\n");
}

TEST_CASE("a name with its substitutions is one word") {
  CHECK(formatted("%h{ I+1 }x{J} = relu %h{I}") == "%h{ I+1 }x{J} = relu %h{I}\n");
}

TEST_CASE("a text with brackets that do not match, or bytes that are no tokens, is left alone") {
  CHECK(is_refused("a }"));
  CHECK(is_refused("a ( ]"));
  CHECK(is_refused(".func main() {"));
  CHECK(is_refused("\"abc"));
  CHECK(is_refused("a ` b"));
  CHECK(is_refused("%a{1"));
}
