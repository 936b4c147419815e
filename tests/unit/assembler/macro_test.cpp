#include "tests/unit/assembler/assembled.h"

using namespace trek;
using namespace trek::tests;

namespace {

size_t instructions(const std::string& text) { return main_of(assembled(text)).code.size(); }

// The names of main's registers, in order, separated by blanks.
std::string names(const std::string& text) {
  const Assembly assembly = assembled(text);
  std::string out;
  for (uint32_t name : assembly.module.debug.names.back().values) {
    if (!out.empty()) out += ' ';
    out += assembly.module.string(name);
  }
  return out;
}

}  // namespace

TEST_CASE("a macro's registers are its own, and those of its arguments the caller's") {
  const std::string macro = ".macro twice X, Y {\n%t = relu {X}\n{Y} = relu %t\n}\n";
  CHECK(names(macro + in_main("%t = copy @x\ntwice %t, %a\ntwice %a, %b\n@y = add %b, %t")) ==
        "t t_1 a t_2 b");
  CHECK(codes(macro + in_main("twice @x, %a\n@y = copy %t")) == "undefined-value");
}

TEST_CASE("a macro sees the registers of its caller") {
  CHECK(codes(".macro use {\n@y = copy %outer\n}\n" + in_main("%outer = copy @x\nuse")).empty());
}

TEST_CASE("a name with a substitution is the caller's") {
  CHECK(codes(".macro make N {\n%h{N} = copy @x\n}\n" + in_main("make 3\n@y = copy %h3")).empty());
}

TEST_CASE("an argument that is an expression is a value of its own") {
  const Assembly assembly =
      assembled(".macro scale F {\n@y = mul @x, {F} * 2\n}\n" + in_main("scale 1 + 2"));
  CHECK(isa::constant_real(
            assembly.module
                .constants[assembly.module.operands(main_of(assembly).code[0])[1].index()]) == 6.0);
}

TEST_CASE("a parameter stands for a register, a word, a list or a type alike") {
  const std::string macro =
      ".macro all X, OP, SIZE, T, FLAG {\n%a = slice {X}, at=[0,0], size={SIZE}\n%b = {OP} %a\n%c "
      "= cast %b, to={T}\n"
      "%d = sum %c, {FLAG}\n}\n";
  CHECK(codes(macro + in_main("all @x, gelu.tanh, [1,1], f64, keep")).empty());
}

TEST_CASE("arguments may be named, and defaults stand for those not given") {
  const std::string macro = ".macro act X, OP = relu, Y = @y {\n{Y} = {OP} {X}\n}\n";
  CHECK(codes(macro + in_main("act @x\nact @x, tanh\nact X=@x, OP=silu")).empty());
  CHECK(codes(macro + in_main("act OP=relu")) == "macro-arguments");
  CHECK(codes(macro + in_main("act @x, X=@x")) == "macro-arguments");
}

TEST_CASE("a parameter hides a constant in the macro alone") {
  const std::string text =
      ".const N = 2\n.macro m N {\nemit \"a{N}\", @x\ninner\n}\n.macro inner {\nemit \"b{N}\", "
      "@x\n}\n";
  const Assembly assembly = assembled(text + in_main("m 5"));
  const auto& code = main_of(assembly).code;
  CHECK(assembly.module.string(assembly.module.attributes(code[0])[0].index()) == "a5");
  CHECK(assembly.module.string(assembly.module.attributes(code[1])[0].index()) == "b2");
}

TEST_CASE("a repetition counts up or down and may not happen at all") {
  CHECK(instructions(in_main(".repeat I = 0 until 3 {\n%t{I} = copy @x\n}")) == 4);
  CHECK(instructions(in_main(".repeat I = 6 until 0 step -2 {\n%t{I} = copy @x\n}")) == 4);
  CHECK(instructions(in_main(".repeat I = 3 until 3 {\n%t{I} = copy @x\n}")) == 1);
  CHECK(codes(in_main(".repeat I = 0 until 3 step 0 {\n}")) == "expansion-limit");
}

TEST_CASE("each repetition has registers of its own") {
  CHECK(names(in_main(".repeat I = 0 until 2 {\n%t = copy @x\n@y = copy %t\n}")) == "t_1 t_2");
}

TEST_CASE("of the branches of a condition one is read") {
  const auto branches = [](const std::string& a, const std::string& b) {
    return in_main(".if " + a + " {\n%a = copy @x\n} .else .if " + b +
                   " {\n%b = copy @x\n%c = copy @x\n} .else {\n}\n");
  };
  CHECK(instructions(branches("true", "true")) == 2);
  CHECK(instructions(branches("false", "true")) == 3);
  CHECK(instructions(branches("1 > 2", "0")) == 1);
  CHECK(codes(in_main(".if \"a\" {\n}")) == "constant-expression");
}

TEST_CASE("a constant that an expansion defines is its own") {
  CHECK(codes(".macro m {\n.const K = 2\nemit \"{K}\", @x\n}\n" + in_main("m\nm")).empty());
  CHECK(codes(".macro m {\n.const K = 2\n}\n" + in_main("m\nemit \"{K}\", @x")) == "unknown-name");
}

TEST_CASE("declarations and functions may come from macros") {
  CHECK(
      codes(".macro layer N {\n.state @v{N} f32[3,3] = 0\n.func f{N}(%a f32[2,3]) -> (f32[2,3]) {\n"
            "%r = matmul %a, @v{N}\nreturn %r\n}\n}\nlayer 1\nlayer 2\n" +
            in_main("%a = call f1(@x)\n@y = call f2(%a)"))
          .empty());
}

TEST_CASE("expansion ends at its limits with one problem") {
  CHECK(codes(".macro m {\nm\n}\n" + in_main("m")) == "expansion-limit");
  CHECK(codes(".macro a {\nb\nb\n}\n.macro b {\na\na\n}\n" + in_main("a")) == "expansion-limit");
  CHECK(codes(in_main(".repeat I = 0 until 1 << 62 {\n%a = copy @x\n}")) == "expansion-limit");
  CHECK(codes(".repeat I = 0 until 1 << 62 {\n}\n" + in_main("")) == "expansion-limit");
  CHECK(codes(".macro deep X {\n%a = add {X}, {X}\n.repeat I = 0 until 1 << 40 {\ninner {X}\n}\n}\n"
              ".macro inner X {\n%b = copy {X}\n}\n" +
              in_main("deep @x")) == "expansion-limit");
  std::string doubling = ".macro m0 X {\n}\n";
  for (int i = 1; i < 60; ++i)
    doubling += ".macro m" + std::to_string(i) + " X {\nm" + std::to_string(i - 1) + " X+X\n}\n";
  CHECK(codes(doubling + in_main("m59 1")).empty());  // never read, so never evaluated
}
