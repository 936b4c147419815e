#include "hostlib/place.h"

#include "isa/builder.h"
#include "tests/unit/hostlib/scratch.h"

using namespace trek;
using isa::Builder;
using isa::DType;
using isa::Module;
using isa::Opcode;
using isa::Ref;
using isa::Role;
using isa::Type;

namespace {

Module sample() {
  Module module;
  Builder build(module);
  const Ref x = build.tensor("x", Type::tensor(DType::f32, {2, 2}), Role::input);
  build.begin_function("main");
  REQUIRE_FALSE(build.add(Opcode::Matmul, {x, x}).has_value());
  const Ref product = build.results()[0];
  REQUIRE_FALSE(build.add(Opcode::Mul, {product, build.real(DType::f32, 0.5)}).has_value());
  build.end_function();
  return module;
}

void add_source(Module& module) {
  module.debug.files = {"demo.trek"};
  module.debug.sources = {
      ".trek 1.0\n.func main() {\n  %p = matmul @x, @x   ; squares \";\"\n  %h = mul %p, 0.5\n}\n"};
  module.debug.lines = {{{{0, 3, 8}, {0, 4, 8}, {0, 5, 1}}}};
}

}  // namespace

TEST_CASE("without debug sections a place is function and instruction, spelt from the table") {
  const Module module = sample();
  CHECK(location_text(module, {0, 1}) == "function main, instruction 1 (mul)");
  CHECK(instruction_text(module, {0, 0}) == "%0 = matmul @x, @x");
  CHECK(written_text(module, {0, 1}) == "%1 = mul %0, 0.5");
  CHECK(source_line(module, {0, 1}).empty());
  CHECK(location_text(module, {kInitFunction, 0}) ==
        "function the initialisers, instruction 0 (return)");
}

TEST_CASE("with them it is the line as it was written, without its comment") {
  Module module = sample();
  add_source(module);
  CHECK(location_text(module, {0, 0}) == "demo.trek:3:8");
  CHECK(written_text(module, {0, 0}) == "%p = matmul @x, @x");
  CHECK(source_line(module, {0, 1}) == "  %h = mul %p, 0.5");
}

TEST_CASE("a line that does not show the instruction is replaced by the instruction's own text") {
  Module module = sample();
  add_source(module);
  CHECK(written_text(module, {0, 2}) == "return");  // left out: the line is `}`
  module.debug.sources = {"\n\n  %p{N} = matmul   {X}, @x\n  %h =  mul   %p,  0.5\n"};
  CHECK(written_text(module, {0, 0}) == "%0 = matmul @x, @x");
  CHECK(written_text(module, {0, 1}) == "%h = mul %p, 0.5");
}

TEST_CASE("registers have their names where these are known") {
  Module module = sample();
  module.strings.emplace_back("p");
  module.debug.names = {{{static_cast<uint32_t>(module.strings.size() - 1), 0}}};
  CHECK(instruction_text(module, {0, 1}) == "%1 = mul %p, 0.5");
}
