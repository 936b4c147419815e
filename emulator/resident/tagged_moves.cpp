#include "emulator/resident/tagged_moves.h"

#include <algorithm>
#include <cstddef>

#include "emulator/device/word_places.h"
#include "emulator/plan/node_uses.h"
#include "emulator/resident/image.h"
#include "emulator/resident/queues.h"

namespace trek::resident {
namespace {

using device::Node;
using plan::kNone;

constexpr int64_t kMostElements = int64_t{64} * 1024;  // of what is given in words
// How many trips a task may be ahead of those that read what it gives, when it begins with some that come together; these
// are told of together, too.
constexpr uint8_t kTripsAhead = device::kWordTrips - device::kTripsTogether;
static_assert(kTripsAhead >= device::kTripsTogether);

class Moves {
 public:
  Moves(const plan::Plan& plan, std::span<const Node* const> nodes, TaggedNodes& found)
      : plan_(plan),
        nodes_(nodes),
        found_(found),
        queues_(plan),
        maker_(plan.nodes.size(), kNone) {}

  void run() {
    int64_t room = (plan_.device.memory_bytes - plan_.arena_bytes) / 2;
    for (uint32_t r = 0; r < plan_.regions.size(); ++r) {
      if (plan_.regions[r].kind != plan::RegionKind::loop || !is_of_moves(r)) continue;
      const int64_t bytes = words_of(plan_.regions[r]);
      if (bytes > room) continue;
      room -= bytes;
      take(r);
    }
  }

 private:
  // Whether a loop holds nothing but moves that read in words, or what nothing in it writes, and has some of the first;
  // notes whose words they read.
  bool is_of_moves(uint32_t region) {
    const plan::Region& loop = plan_.regions[region];
    for (uint32_t n = loop.first_node; n < loop.end_node; ++n)
      if (!is_move(n)) return false;
    if (!plan::has_trips_in_turn(plan_, region)) return false;
    bool some = false;
    for (uint32_t n = loop.first_node; n < loop.end_node; ++n) {
      if (!is_alone(loop, n)) return false;
      const uint32_t writers = writers_of(loop, n, maker_[n]);
      if (writers > 1 || (writers == 1 && !gives_all(maker_[n], n))) return false;
      some = some || writers == 1;
    }
    return some;
  }

  const plan::Buffer& buffer_of(uint32_t view) const {
    return plan_.buffers[plan_.view(view).buffer];
  }
  const plan::Buffer& result_of(uint32_t n) const { return buffer_of(plan_.nodes[n].results[0]); }

  // Whether a node gives all of its result, as it lies, by quick moves of four bytes.
  bool is_move(uint32_t n) const {
    const plan::Node& of = plan_.nodes[n];
    const Node* node = nodes_[n];
    if (static_cast<device::Quick>(node->quick) != device::Quick::move ||
        static_cast<device::Kind>(node->kind) != device::Kind::move ||
        node->move.element_bytes != 4 || of.tiling != plan::Tiling::elements ||
        of.results.size() != 1 || of.operands.empty() ||
        of.operands[0].kind != plan::Operand::Kind::view || of.put)
      return false;
    const device::Operand& to = node->operand(node->move.quick_to);
    if (to.map.kind != device::Map::same || to.offset != node->result(0).offset ||
        to.offset != result_of(n).offset || node->areas_at != 0 || !has_room_for_areas(*node))
      return false;
    if (result_of(n).kind != plan::BufferKind::tensor_register ||
        node->result(0).elements > kMostElements)
      return false;
    // Who waits for a trip of it must have a counter of every task.
    const std::span tasks(plan_.tasks.data() + of.first_task, of.tasks);
    return std::ranges::all_of(tasks, [](const plan::Task& task) {
      return task.count <= kWordsOfTask && task.signals != 0;
    });
  }

  // How many nodes of a loop write what a move of it reads, and one of them.
  uint32_t writers_of(const plan::Region& loop, uint32_t n, uint32_t& writer) const {
    const plan::Operand& from = plan_.nodes[n].operands[0];
    uint32_t writers = 0;
    writer = kNone;
    for (uint32_t m = loop.first_node; m < loop.end_node; ++m) {
      if (!touches(plan_.nodes[m].results[0], from.index)) continue;
      ++writers;
      writer = m;
    }
    return writers;
  }
  // Whether a move reads what another gives and nothing else.
  bool gives_all(uint32_t maker, uint32_t n) const {
    return maker != n && nodes_[n]->operand(0).offset == nodes_[maker]->result(0).offset &&
           nodes_[n]->operand(0).elements == nodes_[maker]->result(0).elements;
  }
  bool touches(uint32_t view, uint32_t other_view) const {
    const plan::Buffer& one = buffer_of(view);
    const plan::Buffer& other = buffer_of(other_view);
    return other.offset < one.offset + one.bytes && one.offset < other.offset + other.bytes;
  }
  // Whether no other node of the loop writes where a move does.
  bool is_alone(const plan::Region& loop, uint32_t n) const {
    for (uint32_t m = loop.first_node; m < loop.end_node; ++m)
      if (m != n && touches(plan_.nodes[m].results[0], plan_.nodes[n].results[0])) return false;
    return true;
  }

  int64_t words_of(uint32_t n) const {
    return int64_t{device::kWordTrips} * device::kWord * nodes_[n]->result(0).elements;
  }
  // Of all of a loop, at most.
  int64_t words_of(const plan::Region& loop) const {
    int64_t bytes = 0;
    for (uint32_t n = loop.first_node; n < loop.end_node; ++n) bytes += words_of(n);
    return bytes;
  }

  // Per counter that is raised in the loop the wait for it.
  std::vector<plan::Wait> counters_of(uint32_t first_task, uint32_t end_task) const {
    std::vector<plan::Wait> found;
    std::vector<bool> has(plan_.counters.size());
    for (uint32_t t = first_task; t < end_task; ++t)
      for (const uint32_t c : plan_.signals_of(plan_.tasks[t])) {
        if (!has[c]) found.push_back({c, plan_.counters[c].producers, 0, false, false});
        has[c] = true;
      }
    return found;
  }

  void take(uint32_t region) {
    const plan::Region& loop = plan_.regions[region];
    const std::vector<plan::Wait> all = counters_of(loop.first_task, loop.end_task);
    for (uint32_t n = loop.first_node; n < loop.end_node; ++n) take_node(loop, n);
    for (uint32_t t = loop.first_task; t < loop.end_task; ++t) {
      for (plan::Wait wait : all) {  // of when the loop was executed before
        wait.delta = 1;
        wait.first_trip = true;
        add_wait(plan_, t, wait, found_);
      }
      for (uint32_t w = plan_.tasks[t].first_wait;
           w < plan_.tasks[t].first_wait + plan_.tasks[t].waits; ++w)
        found_.first_trip[w] = true;
    }
    for (uint32_t p = 0; p < static_cast<uint32_t>(plan_.device.processors); ++p)
      for (const plan::Wait& wait : all)
        queues_.hand_on(p, {loop.first_task, loop.end_task, loop.parent}, wait, found_,
                        [](uint32_t) { return false; });
  }
  // Across lines of how many elements a move reads another's result, if words can lie in patches of them.
  uint32_t line_of(uint32_t n, uint32_t reader) const {
    const Node& node = *nodes_[reader];
    const device::Map& map = node.operand(node.move.quick_from).map;
    if (map.kind != device::Map::axes || map.count == 0) return 0;
    const int64_t line = node.axis(map.first + map.count - 1u)->stride;
    const int64_t elements = nodes_[n]->result(0).elements;
    const bool has_patches = line >= device::kPatch && line % device::kPatch == 0 &&
                             elements % (line * device::kPatch) == 0;
    return has_patches ? static_cast<uint32_t>(line) : 0;
  }
  void take_node(const plan::Region& loop, uint32_t n) {
    const Node& node = *nodes_[n];
    if (maker_[n] != kNone) {
      TaggedNode& of = found_.nodes[n];
      of.left = maker_[n];
      of.left_view = plan_.nodes[n].operands[0].index;
      of.left_begin = static_cast<uint32_t>(
          (node.operand(node.move.quick_from).offset - node.operand(0).offset) / 4);
      of.is_carried = maker_[n] > n;
    }
    for (uint32_t z = loop.first_node; z < loop.end_node; ++z) {
      if (maker_[z] != n) continue;
      found_.nodes[n].result_line = line_of(n, z);
      found_.nodes[n].bytes = words_of(n);
      const plan::Node& reader = plan_.nodes[z];
      for (plan::Wait wait : counters_of(reader.first_task, reader.first_task + reader.tasks)) {
        wait.delta = kTripsAhead;
        const plan::Node& of = plan_.nodes[n];
        for (uint32_t t = of.first_task; t < of.first_task + of.tasks; ++t)
          found_.more[t].push_back(wait);
      }
    }
  }

  const plan::Plan& plan_;
  std::span<const Node* const> nodes_;
  TaggedNodes& found_;
  Queues queues_;
  std::vector<uint32_t> maker_;  // per node: whose words it reads, or kNone
};

}  // namespace

void find_tagged_moves(const plan::Plan& plan, std::span<const Node* const> nodes,
                       TaggedNodes& found) {
  Moves(plan, nodes, found).run();
}

}  // namespace trek::resident
