#include "tests/unit/assembler/assembled.h"

using namespace trek;
using namespace trek::tests;

namespace {

// The constant that is operand `i` of main's first instruction.
isa::Constant immediate(const std::string& body, size_t i) {
  const Assembly assembly = assembled(in_main(body));
  const isa::Ref ref = assembly.module.operands(main_of(assembly).code[0])[i];
  REQUIRE(ref.is(isa::RefKind::constant));
  return assembly.module.constants[ref.index()];
}

}  // namespace

TEST_CASE("an immediate has the type of its place") {
  CHECK(immediate("%a = mul @x, 2", 1).dtype == isa::DType::f32);
  CHECK(immediate("$a = mul $p, 2", 1).dtype == isa::DType::f32);
  CHECK(immediate("$a = add 1, 2", 0).dtype == isa::DType::i64);
  CHECK(immediate("$a = add 1, 2.5", 0).dtype == isa::DType::f32);
  CHECK(immediate("$a = add 1, f64(2)", 0).dtype == isa::DType::f64);
  CHECK(immediate("%a = fill 0.5, shape=[2], to=f16", 0).dtype == isa::DType::f32);
  CHECK(immediate("%a = fill 0.5, shape=[2], to=f64", 0).dtype == isa::DType::f64);
  CHECK(immediate("%a = fill 1, shape=[2], to=f32", 0).dtype == isa::DType::i64);
  CHECK(immediate("store! @y, 3, at=[0,0]", 1).dtype == isa::DType::f32);
  CHECK(immediate("emit \"a\", 3", 0).dtype == isa::DType::i64);
  CHECK(immediate("%a = where true, @x, 0", 0).dtype == isa::DType::boolean);
}

TEST_CASE("functions may be called before they stand, and tensors used before they are declared") {
  CHECK(codes(".func main() {\n@z = call f(@a, 2)\n}\n.func f(%x f32[2], $s f32) -> (f32[2]) {\n%r "
              "= mul %x, $s\nreturn %r\n}\n"
              ".input @a f32[2]\n.output @z f32[2]\n")
            .empty());
}

TEST_CASE("regions hand their values on, and what is inside ends with them") {
  CHECK(codes(in_main("%c, $n = loop $i = 0 until 3 carry %a = @x, $k = 0 {\n$m = add $k, $i\n%b = "
                      "relu %a\nyield %b, $m\n}\n@y = copy %c"))
            .empty());
  CHECK(codes(in_main("%r = if true {\nyield @x\n} else {\n%t = neg @x\nyield %t\n}\n@y = copy %r"))
            .empty());
  CHECK(codes(in_main("$r = if true {\nyield 1.5\n} else {\nyield 2\n}\nstore! @y, $r, at=[0,0]"))
            .empty());
  CHECK(codes(in_main(
                  "loop $i = 0 until 3 {\n%t = copy @x\n}\nloop $i = 0 until 3 {\n%t = copy @x\n}"))
            .empty());
  CHECK(codes(in_main("%t = copy @x\nloop $i = 0 until 3 {\n%t = copy @x\n}")) == "redefined");
}

TEST_CASE("an in-place parameter is written by its name") {
  CHECK(codes(".func f(%w! f32[3,3]) {\n%w = mul %w, 2\nsgd! %w, %w2, lr=1\n}\n" + in_main("")) ==
        "undefined-value");
  CHECK(codes(".func f(%w! f32[3,3], %g f32[3,3]) {\n%w = mul %w, 2\nsgd! %w, %g, lr=1\n}\n" +
              in_main("call f(@w, @w)")) == "alias");
  CHECK(codes(".func f(%w! f32[3,3]) {\n%w = mul %w, 2\n}\n" + in_main("call f(@w)")).empty());
  CHECK(codes(".func f(%w f32[3,3]) {\n%w = mul %w, 2\n}\n" + in_main("")) == "redefined");
}

TEST_CASE("what uses a value that failed is passed over in silence") {
  CHECK(
      codes(in_main(
          "%a = matmul @x, @x\n%b = relu %a\n%c = slice %b, at=[0,0], size=[1,1]\n@y = copy %c")) ==
      "shape-mismatch");
  CHECK(codes(in_main(
            "%a = loop $i = 0 until 3 carry %b = @x {\n%c = foo %b\nyield %c\n}\n@y = copy %a")) ==
        "unknown-instruction");
}

TEST_CASE("an error costs its statement and no other") {
  CHECK(
      codes(in_main("%a = add @x, (1 +\n%b = foo\n%c = ]\nloop $i = {\n%d = bar\n}\n%e = baz")) ==
      "unexpected-token unknown-instruction unexpected-token unexpected-token unknown-instruction");
}

TEST_CASE("data of every form becomes bytes in row-major order") {
  const Assembly assembly = assembled(
      ".data @a i16[2,2] = {{1, -2}, {3, 4}}\n.data @b u8[3] = hex(\"01\", \"02ff\")\n.data @c "
      "bool[2] = {true, 0}\n"
      ".data @d f32[] = {1}\n.data @e f16[2] = 1\n.data @f f32[0] = {}\n.func main() {\n}\n");
  const auto bytes = [&](size_t tensor) {
    const isa::TensorDecl& decl = assembly.module.tensors[tensor];
    std::string out;
    for (int64_t i = 0; i < assembly.module.type(decl.type).bytes(); ++i)
      out += std::to_string(
                 static_cast<int>(assembly.module.data[decl.offset + static_cast<uint64_t>(i)])) +
             " ";
    return out;
  };
  CHECK(bytes(0) == "1 0 254 255 3 0 4 0 ");
  CHECK(bytes(1) == "1 2 255 ");
  CHECK(bytes(2) == "1 0 ");
  CHECK(bytes(3) == "0 0 128 63 ");
  CHECK(bytes(4) == "0 60 0 60 ");
  CHECK(bytes(5).empty());
}

TEST_CASE("a state may begin as what an initialiser makes") {
  const Assembly assembly = assembled(
      ".state @a f32[4] = normal(0, 0.5, key=7)\n.state @b i64[3] = permutation(key=1)\n.state @c "
      "i32[3] = permutation(key=2)\n"
      ".state @d f64[2] = 0.1\n.state @e i32[2,2] = iota(axis=1)\n.func main() {\n}\n");
  const auto& init = assembly.module.init.code;
  REQUIRE(init.size() == 6);
  CHECK(init[0].opcode == isa::Opcode::Normal);
  CHECK(assembly.module.attributes(init[1])[1] == isa::Ref{});
  CHECK(assembly.module.attributes(init[2])[1] == isa::Builder::dtype(isa::DType::i32));
  CHECK(assembly.module.constants[assembly.module.operands(init[3])[0].index()].dtype ==
        isa::DType::f64);
  CHECK(codes(".state @a f32[4] = normal(0, 1, key=7, shape=[4])\n.func main() {\n}\n") ==
        "invalid-attribute");
  CHECK(codes(".state @a f32[4] = normal(1, 2, 3, 4, 5, key=7)\n.func main() {\n}\n") != "");
  CHECK(codes(".param $k i64 = 1\n.state @a f32[4] = normal(key=$k)\n.func main() {\n}\n") ==
        "constant-expression");
  CHECK(codes(".state @a f32[4,4] = permutation(key=1)\n.func main() {\n}\n") == "shape-mismatch");
}

TEST_CASE("embedded tests bind inputs and say what comes out") {
  const Assembly assembly = assembled(
      in_main("@y = copy @x") +
      ".test \"copies\" {\n@x = {1, 2, 3, 4, 5, 6}\n$p = 2\nexpect @y = {{1, 2, 3}, {4, 5, 6}}\n}\n"
      ".test \"traps\" {\nexpect trap index-out-of-range\n}\n");
  REQUIRE(assembly.module.tests.size() == 2);
  CHECK(assembly.module.tests[0].given.size() == 2);
  CHECK(assembly.module.tests[0].expected.size() == 1);
  CHECK(assembly.module.tests[1].trap == isa::TrapCode::IndexOutOfRange);
  CHECK(codes(in_main("") + ".test \"t\" {\n@x = 1\n@x = 2\n}\n") == "redefined");
  // A stream is given block by block.
  const Assembly streamed =
      assembled(".stream @s f32[2]\n" + in_main("") + ".test \"t\" {\n@s = {1, 2}\n@s = 3\n}\n");
  CHECK(streamed.module.tests[0].given.size() == 2);
  CHECK(codes(in_main("") + ".test \"t\" {\nexpect @y = 1\nexpect trap explicit\n}\n") ==
        "structure");
  CHECK(codes(in_main("") + ".test \"t\" {\nexpect trap index-out-of-rang\n@q = 1\nexpect $p = "
                            "1\n@x = normal(key=1)\n}\n") ==
        "unknown-name unknown-name unexpected-token not-writable");
}

TEST_CASE("the version comes first and is one that can be read") {
  CHECK(assemble_text("t", ".func main() {\n}\n").problems.size() == 1);
  CHECK(assemble_text("t", "; only a comment\n\n.trek 1.0\n.func main() {\n}\n").ok());
  for (const char* version : {"1.1", "2.0", "1", "1.0.0", "99999999999.0"}) {
    INFO(version);
    CHECK(assemble_text("t", std::string(".trek ") + version + "\n.func main() {\n}\n")
              .problems.size() == 1);
  }
}

TEST_CASE("a source is refused with one clear problem where it is hostile") {
  std::string loops;
  for (int i = 0; i < 100000; ++i) loops += "loop $i" + std::to_string(i) + " = 0 until 2 {\n";
  CHECK(codes(in_main(loops + std::string(100000, '}'))) == "nesting-limit");
  CHECK(codes(std::string(100000, '{')) == "unexpected-token");
  CHECK(codes(".state @a f32[1 << 62,1 << 62]\n.func main() {\n}\n") == "shape-limit");
  CHECK(codes(".data @a f32[1 << 40] = 1\n.func main() {\n}\n") == "data-shape");
  CHECK(codes(".repeat I = 0 until 100 {\n.data @a{I} u8[1 << 26] = 1\n}\n.func main() {\n}\n")
            .starts_with("data-shape"));
  std::string many = ".func main() {\n";
  for (int i = 0; i < 1000; ++i) many += "foo" + std::to_string(i) + "\n";
  CHECK(assemble_text("t", ".trek 1.0\n" + many + "}\n").problems.size() == 100);
}

TEST_CASE("a missing brace is reported, and not what follows from it") {
  const std::string other = ".func other() {\n%a = rleu @x\n}\n";
  // Of the loop, whose results and registers end where the text is cut.
  CHECK(
      codes(".input @x f32[4]\n.func main() {\n%r = loop $i = 0 until 3 carry %c = @x {\nyield %c\n"
            "%c = copy %r\nemit \"c\", %c\n}\n" +
            other) == "unclosed unknown-instruction");
  CHECK(codes(".input @x f32[4]\n.func main() -> (f32[4]) {\n%c = relu @x, 1\n" + other) ==
        "unclosed operand-count unknown-instruction");
  // Names may be defined in what is not read.
  CHECK(codes(".func main() {\ncall f()\nm\n}\n.macro m {\n.func f() {\n}\n") == "unclosed");
  CHECK(codes(".func main() {\ncall f()\n}\n.include \"nowhere.trek\"\n") == "include-failed");
  CHECK(codes(".test \"t\" {\nexpect @y = 1\n.output @y f32[2]\n.func main() {\n}\n") ==
        "unclosed");
}

TEST_CASE("without debug sections the module says nothing of its source") {
  AssembleOptions options;
  options.debug = false;
  const Assembly assembly = assembled("; comment\n" + in_main("%a = copy @x"), options);
  const isa::Debug& debug = assembly.module.debug;
  CHECK((debug.names.empty() && debug.lines.empty() && debug.files.empty() &&
         debug.sources.empty() && debug.items.empty()));
}
