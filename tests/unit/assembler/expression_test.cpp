#include <cmath>

#include "tests/unit/assembler/assembled.h"

using namespace trek;
using namespace trek::tests;

TEST_CASE("operators bind in the order that the language says") {
  CHECK(integer_of("1 + 2 * 3") == 7);
  CHECK(integer_of("(1 + 2) * 3") == 9);
  CHECK(integer_of("-2 ** 2") == -4);
  CHECK(integer_of("2 ** 3 ** 2") == 512);
  CHECK(real_of("2 ** -1") == 0.5);
  CHECK(integer_of("1 << 2 + 1") == 8);
  CHECK(integer_of("6 & 3 == 2 ? 1 : 0") == 1);
  CHECK(integer_of("1 | 2 ^ 2 & 3") == 1);
  CHECK(integer_of("10 - 3 - 2") == 5);
  CHECK(integer_of("true ? false ? 1 : 2 : 3") == 2);
  CHECK(integer_of("!false && true || false ? 4 : 5") == 4);
  CHECK(integer_of("~5") == -6);
}

TEST_CASE("a remainder needs no blanks, not even before a name") {
  CHECK(integer_of("7 % 4") == 3);
  CHECK(integer_of("7%4") == 3);
  const Assembly assembly = assembled(".const N = 4\n.param $v i64 = 7%N\n.func main() {\n}\n");
  CHECK(isa::constant_integer(assembly.module.constants[assembly.module.params[0].value]) == 3);
}

TEST_CASE("a remainder of reals is exact and has the sign of the divisor") {
  CHECK(real_of("5.5 % 2.0") == 1.5);
  CHECK(real_of("-5.5 % 2.0") == 0.5);
  CHECK(real_of("5.5 % -2.0") == -0.5);
  CHECK(real_of("1e300 % 7.0") == std::fmod(1e300, 7.0));  // the quotient has no digit to round
  CHECK(real_of("0.3 % 0.1") == std::fmod(0.3, 0.1));
  CHECK(std::isnan(real_of("1.0 % 0.0")));
}

TEST_CASE("functions and names of expressions give their values") {
  CHECK(integer_of("min(3, 1, 2)") == 1);
  CHECK(real_of("max(1, 2.5)") == 2.5);
  CHECK(integer_of("abs(-9223372036854775807)") == INT64_MAX);
  CHECK(integer_of("floor(-1.5)") == -2);
  CHECK(integer_of("ceil(1.2)") == 2);
  CHECK(integer_of("round(2.5)") == 2);
  CHECK(integer_of("len(\"a\\nb\")") == 3);
  CHECK(real_of("sqrt(2)") == std::sqrt(2.0));
  CHECK(real_of("exp(1)") == real_of("e"));
  CHECK(real_of("log(1)") == 0.0);
  CHECK(real_of("pi") == 3.141592653589793);
  CHECK(std::isnan(real_of("nan")));
  CHECK(real_of("-inf") < 0);
  CHECK(real_of("f64(1)") == 1.0);
}

TEST_CASE("dim gives a dimension of a tensor declared before") {
  const std::string tensor = ".input @x f32[4,7]\n";
  CHECK(codes(tensor + ".state @a f32[dim(@x,1),dim(@x,-2)] = 0\n.func main() {\n}\n").empty());
  CHECK(codes(tensor + ".state @a f32[dim(@x,2)] = 0\n.func main() {\n}\n") ==
        "constant-expression");
  CHECK(codes(".state @a f32[dim(@x,0)] = 0\n.func main() {\n}\n") == "unknown-name");
}

TEST_CASE("what is not evaluated may have no value") {
  CHECK(integer_of("true ? 1 : 1 // 0") == 1);
  CHECK(integer_of("false && 1 // 0 == 0 ? 1 : 2") == 2);
  CHECK(codes(".const A = false ? 1 : 1 // 0\n.func main() {\n}\n") == "constant-expression");
}

TEST_CASE("expressions nest to their limit and no further") {
  const auto nested = [](size_t depth) {
    return ".const A = " + std::string(depth, '(') + "1" + std::string(depth, ')') +
           "\n.func main() {\n}\n";
  };
  CHECK(codes(nested(200)).empty());
  CHECK(codes(nested(300)) == "constant-expression");
  CHECK(codes(nested(100000)) == "constant-expression");
}

TEST_CASE("a newline within parentheses does not end an expression") {
  CHECK(integer_of("(1 +\n 2)") == 3);
  CHECK(integer_of("min(\n1,\n2)") == 1);
}

TEST_CASE("escapes of strings stand for their bytes") {
  const Assembly assembly = assembled(in_main(R"(emit "\x41\n\t\r\"\\\{", @x)"));
  const auto& code = main_of(assembly).code;
  const auto name = assembly.module.attributes(code[0])[0];
  CHECK(assembly.module.string(name.index()) == "A\n\t\r\"\\{");
  CHECK(codes(in_main(R"(emit "\q", @x)")) == "unexpected-token");
  CHECK(codes(in_main("emit \"a{\", @x")) == "unclosed");
}

TEST_CASE("constants of the command line stand above those of the source") {
  AssembleOptions options;
  options.defines = {{"N", "2 + 1"}, {"M", "5"}};
  const Assembly assembly =
      assembled(".const N = 7\n.param $v i64 = N * M\n.func main() {\n}\n", options);
  CHECK(isa::constant_integer(assembly.module.constants[assembly.module.params[0].value]) == 15);
  REQUIRE(assembly.module.debug.constants.size() == 1);
  CHECK(assembly.module.string(assembly.module.debug.constants[0].text) == "3");
  CHECK(codes(".func main() {\n}\n", options) == "unknown-name unknown-name");
  // A definition that went wrong is a definition all the same.
  CHECK(codes(".const N = 1 +\n.const M = N\n.func main() {\n}\n", options) == "unexpected-token");
  options.defines = {{"N", "1 +"}};
  CHECK(codes(".func main() {\n}\n", options) == "constant-expression");
  options.defines = {{"f32", "1"}};
  CHECK(codes(".func main() {\n}\n", options) == "constant-expression");
}
