#include "emulator/resident/tags.h"

#include <algorithm>
#include <cstddef>

#include "emulator/device/matrix_thin_cut.h"
#include "emulator/device/word_places.h"
#include "emulator/resident/queues.h"
#include "emulator/resident/tagged_moves.h"

namespace trek::resident {
namespace {

using device::Node;
using device::TailStep;
using isa::DType;
using plan::kNone;

constexpr int64_t kMostWords = 4096;  // that a task reads
constexpr uint32_t kMany = kNone - 1;

int64_t words_of(const device::Operand& result) {
  return result.elements / device::thin::in_word(static_cast<DType>(result.dtype));
}

bool is_group(const Node& node) { return node.matrix.thin.group.products != 0; }
// One row, one part, an output a thread; of one product all that stands beside it in registers.
bool is_simple(const Node* node) {
  if (node == nullptr || !device::is_thin(*node)) return false;
  const device::Thin& cut = node->matrix.thin.cut;
  return cut.rows == 1 && cut.alone != 0 &&
         (is_group(*node) || node->matrix.tail_steps != device::Matrix::kNoTail);
}

class Finder {
 public:
  Finder(const plan::Plan& plan, std::span<const Node* const> nodes) : plan_(plan), nodes_(nodes) {
    found_.nodes.resize(plan.nodes.size());
    found_.late.resize(plan.waits.size());
    found_.first_trip.resize(plan.waits.size());
    found_.more.resize(plan.tasks.size());
  }

  TaggedNodes run() {
    if (plan_.device.has_tags) {
      find_writers();
      find_raisers();
      for (uint32_t n = 0; n < plan_.nodes.size(); ++n)
        if (is_simple(nodes_[n])) look_at(n);
    }
    return std::move(found_);
  }

 private:
  void find_writers() {
    writer_.assign(plan_.buffers.size(), kNone);
    for (uint32_t n = 0; n < plan_.nodes.size(); ++n)
      for (const uint32_t view : plan_.nodes[n].results) {
        uint32_t& writer = writer_[plan_.view(view).buffer];
        writer = writer == kNone ? n : kMany;
      }
  }
  void find_raisers() {
    raiser_.assign(plan_.counters.size(), kNone);
    for (const plan::Task& task : plan_.tasks)
      for (const uint32_t counter : plan_.signals_of(task)) {
        uint32_t& raiser = raiser_[counter];
        raiser = raiser == kNone || raiser == task.node ? task.node : kMany;
      }
  }

  // The one node that writes what `operand` reads in the same trip of `reader`'s region, and may give it in words; else
  // kNone.
  uint32_t maker_of(uint32_t reader, uint32_t operand) const {
    const plan::Operand& from = plan_.nodes[reader].operands[operand];
    if (from.kind != plan::Operand::Kind::view) return kNone;
    const plan::Buffer& buffer = plan_.buffers[plan_.view(from.index).buffer];
    const uint32_t maker = writer_[plan_.view(from.index).buffer];
    if (buffer.kind != plan::BufferKind::tensor_register || maker >= reader) return kNone;
    const plan::Node& made = plan_.nodes[maker];
    const Node* node = nodes_[maker];
    if (made.region != plan_.nodes[reader].region || !is_simple(node) || made.put) return kNone;
    const uint32_t index = result_index(maker, plan_.view(from.index).buffer);
    if (found_.nodes[maker].bytes != 0 && found_.nodes[maker].result_index != index) return kNone;
    const device::Operand& result = node->result(index);
    if (result.map.kind != device::Map::same ||
        (is_group(*node) && static_cast<DType>(result.dtype) != DType::f32))
      return kNone;
    const auto type = static_cast<DType>(result.dtype);
    const bool in_twos =
        type == DType::f32 || (node->matrix.n % 2 == 0 && node->matrix.tile_columns % 2 == 0);
    const bool fits = node->matrix.m == 1 && result.elements % 4 == 0 &&
                      words_of(result) <= kMostWords && in_twos &&
                      (type == DType::f32 || type == DType::bf16 || type == DType::f16);
    return fits ? maker : kNone;
  }
  uint32_t result_index(uint32_t maker, uint32_t buffer) const {
    const std::vector<uint32_t>& results = plan_.nodes[maker].results;
    const auto found = std::find_if(results.begin(), results.end(), [&](uint32_t view) {
      return plan_.view(view).buffer == buffer;
    });
    return static_cast<uint32_t>(found - results.begin());
  }
  bool is_constant(const plan::Operand& operand) const {
    return operand.kind != plan::Operand::Kind::view ||
           plan_.buffers[plan_.view(operand.index).buffer].immutable;
  }

  // Whether a product's row is operand `entry` of its descriptor as it lies, or made of it.
  static bool is_row(const Node& node, uint32_t entry) {
    if (node.operand(entry).elements != node.matrix.k) return false;
    if (!device::makes_left(node)) return entry == 0 && node.matrix.thin.cut.fours != 0;
    const device::Phases& of = node.phases();
    return of.brought == 1 && of.operand[0] == entry && of.n == node.matrix.k &&
           (of.columns == 0 || of.columns_stay != 0);
  }
  // Whether a tail reads operand `entry` at the output's element.
  static bool is_beside(const Node& node, uint32_t entry) {
    for (uint32_t s = 0; s < node.matrix.tail_steps; ++s) {
      const TailStep& step = node.matrix.tail[s];
      if (step.second == TailStep::elements && step.index == entry) return true;
    }
    return false;
  }

  // Says what of a node's descriptor reads operand `operand`, which `maker` makes; false where that cannot be in words.
  bool read_in_words(uint32_t n, uint32_t operand, uint32_t maker, TaggedNode& tagged) const {
    const Node& node = *nodes_[n];
    const uint32_t view = plan_.nodes[n].operands[operand].index;
    const plan::Buffer& buffer = plan_.buffers[plan_.view(view).buffer];
    for (uint32_t entry = 0; entry < node.all_operands; ++entry) {
      const device::Operand& from = node.operand(entry);
      const bool reads = static_cast<DType>(from.dtype) != DType::none &&
                         from.scalar == device::kNoScalar && from.offset >= buffer.offset &&
                         from.offset < buffer.offset + buffer.bytes;
      if (!reads) continue;
      if (from.offset != buffer.offset) return false;
      if (is_row(node, entry) && tagged.left == kNone) {
        tagged.left = maker;
        tagged.left_view = view;
      } else if (is_beside(node, entry) && tagged.beside == kNone) {
        tagged.beside = maker;
        tagged.beside_view = view;
        tagged.beside_operand = entry;
      } else {
        return false;
      }
    }
    return true;
  }

  void look_at(uint32_t n) {
    const Node& node = *nodes_[n];
    if (node.matrix.thin.cut.immutable == 0) return;
    for (uint32_t i = 0; i < node.scalars; ++i)
      if (node.scalar(i).kind == device::Scalar::memory) return;
    TaggedNode tagged;
    if (is_group(node) ? !reads_group(n, tagged) : !reads_one(n, tagged)) return;
    if (tagged.left == kNone) return;
    const std::vector<uint32_t> late = waits_of_all(n, tagged.left);
    if (late.empty()) return;
    for (const uint32_t w : late) found_.late[w] = true;
    tagged.bytes = found_.nodes[n].bytes;
    tagged.result_index = found_.nodes[n].result_index;
    found_.nodes[n] = tagged;
    give(tagged.left, plan_.view(tagged.left_view).buffer);
    if (tagged.beside != kNone) give(tagged.beside, plan_.view(tagged.beside_view).buffer);
  }
  void give(uint32_t maker, uint32_t buffer) {
    TaggedNode& of = found_.nodes[maker];
    of.result_index = result_index(maker, buffer);
    const device::Operand& result = nodes_[maker]->result(of.result_index);
    of.bytes = device::kWord * words_of(result);
  }

  // Whether all that a product reads is never written or comes in words.
  bool reads_one(uint32_t n, TaggedNode& tagged) const {
    const plan::Node& of = plan_.nodes[n];
    for (uint32_t i = 0; i < of.operands.size(); ++i) {
      if (is_constant(of.operands[i])) continue;
      const uint32_t maker = maker_of(n, i);
      if (maker == kNone || !read_in_words(n, i, maker, tagged)) return false;
    }
    return true;
  }
  // The same of several that a program joins: of what stands beside their sums each task has what it is told before.
  bool reads_group(uint32_t n, TaggedNode& tagged) const {
    const plan::Node& of = plan_.nodes[n];
    const Node& node = *nodes_[n];
    const uint32_t maker = maker_of(n, 0);
    if (maker == kNone || node.matrix.thin.cut.fours == 0 ||
        node.operand(0).elements != node.matrix.k)
      return false;
    tagged.left = maker;
    tagged.left_view = of.operands[0].index;
    for (uint32_t i = 1; i < of.operands.size(); ++i) {
      if (is_constant(of.operands[i])) continue;
      const uint32_t buffer = plan_.view(of.operands[i].index).buffer;
      const uint32_t writer = writer_[buffer];
      const bool is_left = buffer == plan_.view(tagged.left_view).buffer;
      if (is_left || !(stands_before(n, writer, maker) || waits_for(n, writer))) return false;
    }
    return true;
  }
  // Whether the row's maker wrote it, each tile on the processor that has the reader's tile of the same columns.
  bool stands_before(uint32_t n, uint32_t writer, uint32_t maker) const {
    const plan::Node& of = plan_.nodes[n];
    if (writer != maker || plan_.nodes[maker].tasks != of.tasks ||
        nodes_[maker]->matrix.tile_columns != nodes_[n]->matrix.tile_columns)
      return false;
    for (uint32_t t = 0; t < of.tasks; ++t) {
      const plan::Task& reads = plan_.tasks[of.first_task + t];
      const plan::Task& writes = plan_.tasks[plan_.nodes[maker].first_task + t];
      if (reads.processor != writes.processor || reads.first != writes.first) return false;
    }
    return true;
  }
  // Whether each task waits for the one of `writer` before it begins, in the same trip.
  bool waits_for(uint32_t n, uint32_t writer) const {
    return writer < plan_.nodes.size() && plan_.nodes[writer].tasks == 1 &&
           !waits_of_all(n, writer).empty();
  }

  // The waits of a node's tasks for those of `raiser` in the same trip, if each task has one; else none.
  std::vector<uint32_t> waits_of_all(uint32_t n, uint32_t raiser) const {
    const plan::Node& of = plan_.nodes[n];
    std::vector<uint32_t> found;
    for (uint32_t t = of.first_task; t < of.first_task + of.tasks; ++t) {
      const plan::Task& task = plan_.tasks[t];
      const size_t before = found.size();
      for (uint32_t w = task.first_wait; w < task.first_wait + task.waits; ++w) {
        const plan::Wait& wait = plan_.waits[w];
        if (raiser_[wait.counter] == raiser && wait.delta == 0 && !wait.first_trip)
          found.push_back(w);
      }
      if (found.size() == before) return {};
    }
    return found;
  }

  const plan::Plan& plan_;
  std::span<const Node* const> nodes_;
  TaggedNodes found_;
  std::vector<uint32_t> writer_;  // per buffer: the node, kMany, or kNone
  std::vector<uint32_t> raiser_;  // per counter, the same
};

// A wait of a task that is late is handed on to those behind it on its processor that have none that is late: the plan takes
// it for granted there.
class LateWaits {
 public:
  LateWaits(const plan::Plan& plan, TaggedNodes& found) : plan_(plan), found_(found) {}

  void hand_on() {
    const Queues queues(plan_);
    for (uint32_t t = 0; t < plan_.tasks.size(); ++t)
      for (uint32_t w = plan_.tasks[t].first_wait; w < end_of_waits(t); ++w)
        if (found_.late[w])
          queues.hand_on(plan_.tasks[t].processor, {t, t + 1, plan_.tasks[t].region},
                         plan_.waits[w], found_.more, [&](uint32_t at) { return is_late(at); });
  }

 private:
  uint32_t end_of_waits(uint32_t t) const {
    return plan_.tasks[t].first_wait + plan_.tasks[t].waits;
  }
  bool is_late(uint32_t t) const {
    for (uint32_t w = plan_.tasks[t].first_wait; w < end_of_waits(t); ++w)
      if (found_.late[w]) return true;
    return false;
  }

  const plan::Plan& plan_;
  TaggedNodes& found_;
};

}  // namespace

TaggedNodes tagged_nodes_of(const plan::Plan& plan, std::span<const Node* const> nodes) {
  TaggedNodes found = Finder(plan, nodes).run();
  if (std::ranges::any_of(found.late, [](bool is) { return is; })) LateWaits(plan, found).hand_on();
  if (plan.device.has_tagged_moves) find_tagged_moves(plan, nodes, found);
  return found;
}

}  // namespace trek::resident
