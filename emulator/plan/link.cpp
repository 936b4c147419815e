#include "emulator/plan/link.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "emulator/plan/deal.h"
#include "emulator/plan/depend.h"
#include "emulator/plan/flow.h"
#include "emulator/plan/fuse.h"
#include "emulator/plan/group_products.h"
#include "emulator/plan/left_rows.h"
#include "emulator/plan/long_reduction.h"
#include "emulator/plan/lower.h"
#include "emulator/plan/place.h"
#include "emulator/plan/product.h"
#include "emulator/plan/put_off.h"
#include "emulator/plan/share.h"
#include "emulator/plan/slices.h"
#include "emulator/plan/split.h"
#include "emulator/plan/split_products.h"
#include "emulator/plan/take_gradients.h"
#include "emulator/plan/take_logits.h"
#include "emulator/plan/take_updates.h"
#include "emulator/plan/tile.h"

namespace trek::plan {

isa::Result<Plan> link(const isa::Module& module, const Device& device,
                       const LinkOptions& options) {
  uint32_t entry = kNone;
  if (!options.initialisers)
    entry = static_cast<uint32_t>(module.find_function("main") - module.functions.data());

  auto flow = inline_calls(module, entry);
  if (!flow) return flow.take_problems();
  split(module, device, options.fast, *flow);
  Fusion fusion = fuse(module, *flow, device, options.fuse);
  if (options.fuse && !device.packs_panels) group_products(module, *flow, fusion);

  Plan plan;
  plan.device = device;
  plan.fast = options.fast;
  lower(module, *flow, fusion, plan);
  plan.fusion = fusion.take_notes();
  if (options.fuse && !device.packs_panels) {
    take_updates(plan);
    take_slices(plan);
    take_left_rows(plan, device);
    take_gradients(plan);
    take_logits(plan);
  }
  split_long_reductions(plan);
  if (options.fuse && !device.packs_panels) put_off(plan);
  find_levels(plan);
  split_products(plan, options.tiles);
  find_levels(plan);
  place(plan);
  share(plan);
  choose_tiles(plan, options.tiles);
  if (plan.arena_bytes > device.memory_bytes) return out_of_memory(plan, plan.arena_bytes);
  tile(plan);
  deal(plan);
  depend(plan);
  return plan;
}

isa::Problem out_of_memory(const Plan& plan, int64_t bytes) {
  constexpr size_t kNamed = 3;
  std::vector<const Buffer*> largest;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.bytes > 0) largest.push_back(&buffer);
  const auto named = largest.begin() + static_cast<ptrdiff_t>(std::min(kNamed, largest.size()));
  std::partial_sort(largest.begin(), named, largest.end(), [](const Buffer* a, const Buffer* b) {
    return std::pair(b->bytes, a) < std::pair(a->bytes, b);
  });
  isa::Problem problem;
  problem.code = isa::ErrorCode::ShapeLimit;
  problem.message = fmt::format(
      "the program needs {} bytes of device memory ({} of them for registers), and {} has {} for "
      "it; the largest:",
      bytes, plan.peak_bytes, plan.device.name, plan.device.memory_bytes);
  for (auto buffer = largest.begin(); buffer != named; ++buffer)
    problem.message += fmt::format("{} {} {} bytes", buffer == largest.begin() ? "" : ",",
                                   (*buffer)->name, (*buffer)->bytes);
  return problem;
}

}  // namespace trek::plan
