// The linker: a module and a device give a plan.
//
//   isa::Result<Plan> plan = link(module, device, {});
//   for (const std::string& error : check_plan(*plan)) ...   // none, unless the linker has a bug
//   fmt::print("{}{}", print_fusion(*plan), print_plan(*plan));  // print.h
#pragma once

#include "emulator/plan/plan.h"
#include "isa/result.h"

namespace trek::plan {

class MeasuredTiles;

struct LinkOptions {
  bool initialisers = false;  // link Module::init instead of main
  bool fuse = true;
  bool fast = false;                     // see Plan
  const MeasuredTiles* tiles = nullptr;  // taken before those of the cost model: measured.h
};

// The module must have passed isa::verify(). Fails where the program is too long with its calls inlined,
// or the device's memory too small.
isa::Result<Plan> link(const isa::Module& module, const Device& device, const LinkOptions& options);

// That a program takes `bytes` where its device has fewer for it: both numbers, and the largest of the plan's
// buffers, which must be placed.
isa::Problem out_of_memory(const Plan& plan, int64_t bytes);

}  // namespace trek::plan
