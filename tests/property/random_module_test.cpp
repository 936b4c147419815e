// The generator itself: what it makes is legal (it aborts otherwise), covers the table, and depends on
// nothing but its seed.
#include "tests/property/random_module.h"

#include <map>

#include <catch2/catch.hpp>

#include "isa/codec.h"

namespace trek::property {
namespace {

template <class Visit>
void for_each_instruction(const isa::Module& module, Visit&& visit) {
  for (const isa::Function& function : module.functions)
    for (const isa::Instruction& instruction : function.code) visit(instruction);
}

TEST_CASE("every instruction of the table is generated") {
  std::map<isa::Opcode, int> seen;
  for (uint64_t seed = 0; seed < 500; ++seed)
    for_each_instruction(random_module(seed), [&](const isa::Instruction& i) { ++seen[i.opcode]; });
  for (const isa::OpInfo& op : isa::all_ops()) {
    INFO(op.mnemonic);
    CHECK(seen[op.opcode] >= 10);
  }
}

TEST_CASE("a seed gives one module, another seed another") {
  CHECK(isa::encode(random_module(7)) == isa::encode(random_module(7)));
  CHECK(isa::encode(random_module(7)) != isa::encode(random_module(8)));
}

TEST_CASE("executable modules hold nothing that must stop them") {
  RandomOptions options;
  options.executable = true;
  for (uint64_t seed = 0; seed < 200; ++seed)
    for_each_instruction(random_module(seed, options), [&](const isa::Instruction& i) {
      CHECK(i.opcode != isa::Opcode::Trap);
      CHECK(i.opcode != isa::Opcode::Next);
    });
}

}  // namespace
}  // namespace trek::property
