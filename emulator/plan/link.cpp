#include "emulator/plan/link.h"

#include <utility>

#include <fmt/format.h>

#include "emulator/plan/depend.h"
#include "emulator/plan/flow.h"
#include "emulator/plan/fuse.h"
#include "emulator/plan/long_reduction.h"
#include "emulator/plan/lower.h"
#include "emulator/plan/place.h"
#include "emulator/plan/split.h"
#include "emulator/plan/tile.h"

namespace trek::plan {

isa::Result<Plan> link(const isa::Module& module, const Device& device,
                       const LinkOptions& options) {
  uint32_t entry = kNone;
  if (!options.initialisers)
    entry = static_cast<uint32_t>(module.find_function("main") - module.functions.data());

  auto flow = inline_calls(module, entry);
  if (!flow) return flow.take_problems();
  split(module, device, *flow);
  Fusion fusion = fuse(module, *flow, options.fuse);

  Plan plan;
  plan.device = device;
  lower(module, *flow, fusion, plan);
  plan.fusion = std::move(fusion.notes);
  split_long_reductions(plan);
  place(plan);
  if (plan.arena_bytes > device.memory_bytes) {
    isa::Problem problem;
    problem.code = isa::ErrorCode::ShapeLimit;
    problem.message = fmt::format(
        "the program needs {} bytes of device memory ({} of them for registers), and {} has {} for "
        "it",
        plan.arena_bytes, plan.peak_bytes, device.name, device.memory_bytes);
    return problem;
  }
  tile(plan);
  depend(plan);
  return plan;
}

}  // namespace trek::plan
