// What is to be compiled of an image: the nodes with tasks that a unit executes.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/jit/compiler.h"
#include "emulator/plan/plan.h"
#include "emulator/resident/encode.h"
#include "isa/result.h"

namespace trek::jit {

struct Wanted {
  std::vector<Request> requests;  // their records are the image's
  std::vector<uint32_t> nodes;    // of the plan, one for each request
};
Wanted wanted_of(const plan::Plan& plan, const resident::Image& image);

// Whether a record is a task that a unit executes.
bool is_of_unit(const resident::Record& record);

// What names the instruction of the refused request.
isa::Problem problem_of(const plan::Plan& plan, const Wanted& wanted, const Refusal& refusal);

}  // namespace trek::jit
