// What the tests of plans share: a module from text, and a plan's run from given bytes to bytes that can be
// compared.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "emulator/plan/check.h"
#include "emulator/plan/geometry.h"
#include "emulator/plan/interpret.h"
#include "emulator/plan/link.h"
#include "isa/module.h"

namespace trek::plan::test {

// A device small enough that little tensors have several tiles.
Device small_device(int processors);

// The module of a text that must be right.
isa::Module assembled(const std::string& text);
Plan linked(const isa::Module& module, const Device& device, bool fuse = true);
// Under fast numerics, for the device as one with a copy engine.
Plan linked_fast(const isa::Module& module, Device device);
// With the first of the candidates of a module's first product that is so.
Plan linked_with_tiles(const isa::Module& module, const Device& device, LinkOptions options,
                       const std::function<bool(const MatrixTiles&)>& is_wanted);
// The errors of check_plan as one text, "" for none.
std::string errors_of(const Plan& plan);
// The one node of an instruction, or that ends in it; fails the test where there is not exactly one.
uint32_t node_of(const Plan& plan, isa::Opcode opcode);
// That every element of a shape is in one of its boxes (box_at()), and none in two.
void expect_each_in_one(const isa::Shape& shape, BoxSize boxes);

// Everything that a run leaves: module tensors (NaNs made one), emitted values, the trap.
struct Outcome {
  std::vector<std::vector<std::byte>> tensors;
  std::vector<EmittedValue> emitted;
  std::string trap;
  std::string failure;
  uint64_t instructions = 0;  // 0 after a trap
  bool operator==(const Outcome&) const = default;
};

// What replaces the bytes that the module gives, and how many blocks a stream has.
struct Given {
  int blocks = 3;
  std::map<uint32_t, std::vector<std::byte>> tensors;
  std::map<uint32_t, std::vector<std::byte>> params;
  // Changes how each plan is interpreted; `arena_bytes` may grow.
  std::function<void(const Plan& plan, InterpretOptions& options, int64_t& arena_bytes)> prepare;
};

// Initialises as the module says, through its own initialisers' plan, and runs main.
Outcome run(const isa::Module& module, const Plan& plan, uint64_t order_seed,
            const Given& given = {});

// What the reference leaves; nothing is emitted.
Outcome reference(const isa::Module& module);
// That plans of several devices, fused and not, leave the same, by as many instructions.
void expect_as_reference(const isa::Module& module);

// Bytes with every NaN made one value.
void make_nans_one(isa::DType dtype, std::vector<std::byte>& bytes);

// The conformance files, in order; what a test of one gives, and the checks that an outcome is as it says.
std::vector<std::string> conformance_files();
Given given_by(const isa::Module& module, const isa::Test& test);
void expect(const isa::Module& module, const isa::Test& test, const Outcome& outcome);

}  // namespace trek::plan::test
