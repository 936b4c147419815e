#include "emulator/resident/recurrent.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "emulator/device/matrix_thin_cut.h"
#include "emulator/plan/node_uses.h"
#include "emulator/resident/pipeline.h"
#include "emulator/resident/tags.h"

namespace trek::resident {
namespace {

using device::Node;
using device::ThinPlace;

constexpr uint32_t kMostElements = 2 * device::kBlockThreads;  // of a row: two a thread

using Carried = std::vector<uint8_t>;  // RecurrentNodes::carried

class Finder {
 public:
  Finder(const plan::Plan& plan, std::span<const Node* const> nodes, const Places& places)
      : plan_(plan), nodes_(nodes), places_(places) {}

  // What the steps of a recurrent loop are carried, by load of their programs; nothing where a loop is none.
  std::optional<Carried> look_at(uint32_t region) const {
    if (!plan::has_trips_in_turn(plan_, region)) return std::nullopt;
    const plan::Region& loop = plan_.regions[region];
    const uint32_t steps = loop.end_node - loop.first_node;
    if (steps == 0 || steps > kMostTogether || kSlots % steps != 0) return std::nullopt;
    for (uint32_t n = loop.first_node; n < loop.end_node; ++n)
      if (!can_be_step(n) || !are_near(loop, n)) return std::nullopt;
    if (!are_alike(loop)) return std::nullopt;
    std::optional<Carried> carried = carried_to(loop, loop.first_node, loop.end_node - 1);
    for (uint32_t n = loop.first_node + 1; carried && n < loop.end_node; ++n)
      if (carried_to(loop, n, n - 1) != carried) return std::nullopt;
    return carried;
  }

 private:
  bool can_be_step(uint32_t n) const {
    const Node* node = nodes_[n];
    if (node == nullptr || !places_.stays[n] || node->matrix.thin.group.products == 0) return false;
    const device::Thin& cut = node->matrix.thin.cut;
    return cut.rows == 1 && cut.k <= kMostElements && cut.k % 4 == 0 &&
           int64_t{kMostTogether} * device::thin::kAimedBytes * node->matrix.tile_columns <=
               cut.bytes &&
           has_room_for_areas(*node);
  }
  // Whether the slices that a node gives in two trips are less than 2 GiB apart.
  bool are_near(const plan::Region& loop, uint32_t n) const {
    return std::ranges::all_of(plan_.nodes[n].results, [&](uint32_t index) {
      const plan::View& view = plan_.view(index);
      const int64_t size = isa::byte_size(view.type.dtype);
      return !view.slice || view.slice->region == plan::kNone ||
             view.slice->step <= INT32_MAX / size / std::abs(loop.step);
    });
  }
  // Whether each processor that has tasks has one of each node, with the same columns, and all are of one form.
  bool are_alike(const plan::Region& loop) const {
    const auto form = ThinPlace{places_.count[loop.first_task]}.form();
    std::set<std::pair<uint32_t, int64_t>> first;  // processors and tiles, of the first node
    for (uint32_t n = loop.first_node; n < loop.end_node; ++n) {
      const plan::Node& node = plan_.nodes[n];
      std::set<std::pair<uint32_t, int64_t>> tiles;
      std::set<uint32_t> processors;
      for (uint32_t t = node.first_task; t < node.first_task + node.tasks; ++t) {
        const plan::Task& task = plan_.tasks[t];
        const ThinPlace place = {places_.count[t]};
        if (form == ThinPlace::kNoForm || place.form() != form || !place.is_followed() ||
            !processors.insert(task.processor).second)
          return false;
        tiles.emplace(task.processor, task.first);
      }
      if (n == loop.first_node)
        first = std::move(tiles);
      else if (tiles != first)
        return false;
    }
    return true;
  }

  const plan::View* view_of(plan::Operand operand) const {
    return operand.kind == plan::Operand::Kind::view ? &plan_.view(operand.index) : nullptr;
  }
  // Which results of `before` the loads of node `n` are; nothing where it has something else that the loop writes.
  std::optional<Carried> carried_to(const plan::Region& loop, uint32_t n, uint32_t before) const {
    const Node& node = *nodes_[n];
    const device::ThinGroup& group = node.matrix.thin.group;
    Carried carried(group.loads);
    const std::vector<plan::Operand>& operands = plan_.nodes[n].operands;
    for (size_t i = 1; i < operands.size(); ++i) {
      const plan::View* view = view_of(operands[i]);
      if (view == nullptr || !plan::is_written_in(plan_, loop, view->buffer)) continue;
      const plan::Node& made = plan_.nodes[before];
      const uint32_t result = plan::result_in(plan_, made, view->buffer);
      const uint32_t load = load_of(node, plan_.buffers[view->buffer].offset);
      if (view->slice || result == made.results.size() || load == group.loads ||
          plan_.view(made.results[result]).slice)
        return std::nullopt;
      carried[load] = static_cast<uint8_t>(1 + result);
    }
    return carried;
  }
  // The load of what lies at an offset, if nothing else reads it; else how many loads there are.
  static uint32_t load_of(const Node& node, int64_t offset) {
    const device::ThinGroup& group = node.matrix.thin.group;
    uint32_t found = group.loads;
    for (uint32_t l = 0; l < group.loads; ++l)
      if (node.operand(node.load(group.first_load + l)->operand).offset == offset) found = l;
    for (uint32_t p = 0; p < group.products; ++p)
      for (uint32_t s = 0; s < group.tail_steps[p]; ++s) {
        const device::TailStep& step = group.tail[p][s];
        if (step.reads_operand() && node.operand(step.index).offset == offset) return group.loads;
      }
    return found;
  }

  const plan::Plan& plan_;
  std::span<const Node* const> nodes_;
  const Places& places_;
};

}  // namespace

RecurrentNodes recurrent_nodes(const plan::Plan& plan, std::span<const Node* const> nodes,
                               const Places& places) {
  RecurrentNodes found = {std::vector<bool>(nodes.size()), std::vector<Carried>(nodes.size())};
  if (!plan.device.has_tags || !plan.device.interprets) return found;
  const Finder finder(plan, nodes, places);
  for (uint32_t r = 0; r < plan.regions.size(); ++r) {
    const std::optional<Carried> carried = finder.look_at(r);
    if (!carried) continue;
    for (uint32_t n = plan.regions[r].first_node; n < plan.regions[r].end_node; ++n) {
      found.may[n] = true;
      found.carried[n] = *carried;
    }
  }
  return found;
}

}  // namespace trek::resident
