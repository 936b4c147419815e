// What is to be compiled of an image: the nodes with tasks that a unit executes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "emulator/engine.h"
#include "emulator/jit/compiler.h"
#include "emulator/plan/plan.h"
#include "emulator/resident/encode.h"
#include "isa/result.h"

namespace trek::jit {

struct Wanted {
  // A node, and its code.
  struct Use {
    uint32_t node = 0;  // of the plan
    size_t request = 0;
    std::vector<uint32_t> addresses;
  };
  std::deque<std::vector<std::byte>> records;  // of the requests
  std::vector<Request> requests;               // nodes that differ in addresses alone have one
  std::vector<uint32_t> first;                 // of each request, the first node that has it
  std::vector<Use> uses;
};
// Which nodes: all, or those that repay the compiler its time where the units can execute the others.
enum class Choice : uint8_t { all, repaying };
Wanted wanted_of(const plan::Plan& plan, const resident::Image& image, Choice choice = Choice::all);
// repaying, unless the environment has TREK_JIT_ALL: tests compile everything.
Choice host_choice();

// The code of a module, to be shown: of each request the line that `place` gives for its first node.
struct Listing {
  plan::Plan plan;
  Wanted wanted;
};
isa::Result<Listing> listing_of(
    const isa::Module& module, const plan::Device& device, NumericsMode numerics,
    const std::function<std::string(uint32_t function, uint32_t instruction)>& place);

// What names the instruction of the refused request.
isa::Problem problem_of(const plan::Plan& plan, const Wanted& wanted, const Refusal& refusal);

}  // namespace trek::jit
