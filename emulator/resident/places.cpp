#include "emulator/resident/places.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

#include "emulator/device/matrix_thin_cut.h"

namespace trek::resident {
namespace {

using device::kPlaceStep;
using device::kSharedBytes;
using device::kThinPlaces;
using plan::kNone;
static_assert(kThinPlaces <= device::ThinPlace::kFollowed);

// Whether the unit has a form for it: one matrix, a tile of one part, and a thread for each block of a column.
bool can_stay(const device::Node& node) {
  const device::Thin& cut = node.matrix.thin.cut;
  const bool group = node.matrix.thin.group.products != 0;
  const auto columns = group ? cut.part : static_cast<uint32_t>(node.matrix.tile_columns);
  return node.bytes <= device::kNodeBytes &&
         node.operand(1).dtype == static_cast<uint8_t>(isa::DType::f32) && cut.rows == 1 &&
         cut.immutable != 0 && cut.ahead == 0 && (group || cut.alone != 0) && cut.k % 16 == 0 &&
         cut.blocks * columns <= device::kBlockThreads && !device::makes_left(node) &&
         node.operand(0).elements == node.matrix.k &&
         node.operand(1).elements == node.matrix.k * node.matrix.n;
}

// All that says what lies in a place, and how.
std::vector<int64_t> columns_of(const device::Node& node, int64_t tile) {
  const device::Matrix& of = node.matrix;
  const device::Thin& cut = of.thin.cut;
  const device::ThinGroup& group = of.thin.group;
  std::vector<int64_t> all = {tile,        of.tile_columns,
                              of.n,        of.k,
                              of.b_k,      of.b_column,
                              cut.pitch,   cut.row,
                              cut.part,    cut.blocks,
                              cut.piece,   cut.by_line,
                              group.panel, node.operand(1).offset};
  for (uint32_t p = 1; p < group.products; ++p)
    all.push_back(node.operand(group.others + p - 1).offset);
  return all;
}

uint32_t bytes_of(const device::Node& node) {
  return (node.matrix.thin.cut.bytes + kPlaceStep - 1) / kPlaceStep * kPlaceStep;
}
// The end of what a thin product works in.
uint32_t end_of_work(const device::Node& node) {
  const device::Thin& cut = node.matrix.thin.cut;
  return cut.sums + 4 * cut.rows * cut.blocks * cut.part;
}

uint32_t innermost_loop(const plan::Plan& plan, uint32_t region) {
  while (region != kNone && !plan.regions[region].is_loop()) region = plan.regions[region].parent;
  return region;
}

// The forms of nodes that join several products (device::ThinPlace::form()).
class Forms {
 public:
  uint32_t operator()(const device::Node& node) {
    if (node.matrix.thin.group.products == 0 || has_scalars(node))
      return device::ThinPlace::kNoForm;
    return numbers_.try_emplace(without_addresses(node), numbers_.size() + 1).first->second;
  }

 private:
  // A scalar is read where the descriptor is, and so has an address of its own in each task.
  static bool has_scalars(const device::Node& node) {
    const device::ThinGroup& group = node.matrix.thin.group;
    for (uint32_t s = 0; s < group.steps; ++s)
      for (const device::Source& input : node.step(group.first_step + s)->inputs)
        if (input.kind == device::Source::scalar) return true;
    return false;
  }
  static std::vector<std::byte> without_addresses(const device::Node& node) {
    const auto* begin = reinterpret_cast<const std::byte*>(&node);
    std::vector<std::byte> record(begin, begin + node.bytes);
    const auto forget = [&](size_t at) {
      std::fill_n(record.begin() + at, sizeof(int64_t), std::byte{});
    };
    const auto forget_offsets = [&](uint32_t table, uint32_t operands) {
      for (uint32_t i = 0; i < operands; ++i)
        forget(table + i * sizeof(device::Operand) + offsetof(device::Operand, offset));
    };
    forget(offsetof(device::Node, scratch));
    forget_offsets(node.operands_at, node.all_operands);
    forget_offsets(node.results_at, node.results);
    return record;
  }

  std::map<std::vector<std::byte>, uint32_t> numbers_;
};

// What a processor has: of each content its place.
struct Processor {
  uint32_t begin = kSharedBytes / kPlaceStep * kPlaceStep;  // of the lowest place
  uint32_t work = 0;
  std::map<std::vector<int64_t>, int64_t> places;

  // As device::ThinPlace::count; nothing where there is no room.
  std::optional<int64_t> take(const device::Node& node, int64_t tile) {
    const auto [found, is_new] = places.try_emplace(columns_of(node, tile));
    if (!is_new) return found->second;
    const uint32_t bytes = bytes_of(node);
    if (places.size() > kThinPlaces || work + bytes > begin) return {};
    begin -= bytes;
    found->second = begin + static_cast<int64_t>(places.size()) - 1;
    return found->second;
  }
};

// Says of each task that stays whether the processor's next one in its loop, or the first of the next trip, has the same
// place.
void say_what_follows(const plan::Plan& plan, std::vector<int64_t>& count) {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> tasks;  // by loop and processor
  for (uint32_t t = 0; t < plan.tasks.size(); ++t) {
    const uint32_t loop = innermost_loop(plan, plan.tasks[t].region);
    if (loop != kNone) tasks[{loop, plan.tasks[t].processor}].push_back(t);
  }
  for (const auto& [where, of_trip] : tasks) {
    std::vector<int64_t> places;
    for (const uint32_t t : of_trip) places.push_back(count[t]);
    for (size_t i = 0; i < of_trip.size(); ++i)
      if (places[i] != 0 && places[i] == places[(i + 1) % of_trip.size()])
        count[of_trip[i]] |= device::ThinPlace::kFollowed;
  }
}

}  // namespace

Places places_of(const plan::Plan& plan, std::span<const device::Node* const> nodes) {
  Places all = {std::vector<bool>(nodes.size()), std::vector<int64_t>(plan.tasks.size())};
  std::vector<Processor> processors(static_cast<size_t>(plan.device.processors));
  std::vector<bool> can(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) can[n] = nodes[n] != nullptr && can_stay(*nodes[n]);
  std::map<uint32_t, std::vector<uint32_t>> tasks;  // that may have places, by their loop
  for (uint32_t t = 0; t < plan.tasks.size(); ++t) {
    const plan::Task& task = plan.tasks[t];
    const device::Node* node = nodes[task.node];
    if (node == nullptr) continue;
    Processor& processor = processors[task.processor];
    processor.work = std::max(processor.work, end_of_work(*node));
    const uint32_t loop = innermost_loop(plan, task.region);
    if (can[task.node] && loop != kNone) tasks[loop].push_back(t);
  }
  for (const auto& [loop, wanted] : tasks) {
    std::vector<Processor> tried = processors;
    std::vector<int64_t> counts;
    for (const uint32_t t : wanted) {
      const plan::Task& task = plan.tasks[t];
      const std::optional<int64_t> count =
          tried[task.processor].take(*nodes[task.node], task.first);
      if (!count) break;
      counts.push_back(*count);
    }
    if (counts.size() < wanted.size()) continue;
    processors = std::move(tried);
    for (size_t i = 0; i < wanted.size(); ++i) {
      all.stays[plan.tasks[wanted[i]].node] = true;
      all.count[wanted[i]] = counts[i];
    }
  }
  say_what_follows(plan, all.count);
  Forms form_of;
  std::vector<int64_t> form(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n)
    if (all.stays[n]) form[n] = form_of(*nodes[n]);
  for (size_t t = 0; t < plan.tasks.size(); ++t)
    all.count[t] |= form[plan.tasks[t].node] << device::ThinPlace::kFormAt;
  return all;
}

}  // namespace trek::resident
