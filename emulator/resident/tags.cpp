#include "emulator/resident/tags.h"

#include <algorithm>
#include <cstddef>

namespace trek::resident {
namespace {

using device::Node;
using device::TailStep;
using isa::DType;
using plan::kNone;

constexpr int64_t kWord = 8;          // bytes, of one f32 or two elements of 16 bits
constexpr int64_t kMostWords = 4096;  // that a task reads
constexpr uint32_t kMany = kNone - 1;

int64_t words_of(DType type, int64_t elements) {
  return type == DType::f32 ? elements : elements / 2;
}

// One row, one part, an output a thread, all that stands beside it in registers.
bool is_simple(const Node* node) {
  if (node == nullptr || !device::is_thin(*node)) return false;
  const device::Thin& cut = node->matrix.thin.cut;
  return node->matrix.thin.group.products == 0 && cut.rows == 1 && cut.alone != 0 &&
         node->matrix.tail_steps != device::Matrix::kNoTail;
}

class Finder {
 public:
  Finder(const plan::Plan& plan, std::span<const Node* const> nodes) : plan_(plan), nodes_(nodes) {
    found_.nodes.resize(plan.nodes.size());
    found_.late.resize(plan.waits.size());
  }

  TaggedNodes run() {
    find_writers();
    find_raisers();
    for (uint32_t n = 0; n < plan_.nodes.size(); ++n)
      if (is_simple(nodes_[n])) look_at(n);
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
    if (made.region != plan_.nodes[reader].region || !is_simple(node) || made.results.size() != 1 ||
        made.put || node->result(0).map.kind != device::Map::same)
      return kNone;
    const device::Operand& result = node->result(0);
    const auto type = static_cast<DType>(result.dtype);
    const int64_t words = words_of(type, result.elements);
    const bool in_twos =
        type == DType::f32 || (node->matrix.n % 2 == 0 && node->matrix.tile_columns % 2 == 0);
    const bool fits = node->matrix.m == 1 && result.elements % 4 == 0 && words <= kMostWords &&
                      in_twos && (type == DType::f32 || type == DType::bf16 || type == DType::f16);
    return fits ? maker : kNone;
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

  // Says what of a node's descriptor reads a buffer that `maker` makes; false where that cannot be in words.
  bool read_in_words(const Node& node, const plan::Buffer& buffer, uint32_t maker,
                     TaggedNode& tagged) const {
    for (uint32_t entry = 0; entry < node.all_operands; ++entry) {
      const device::Operand& from = node.operand(entry);
      const bool reads = static_cast<DType>(from.dtype) != DType::none &&
                         from.scalar == device::kNoScalar && from.offset >= buffer.offset &&
                         from.offset < buffer.offset + buffer.bytes;
      if (!reads) continue;
      if (from.offset != buffer.offset) return false;
      if (is_row(node, entry) && tagged.left == kNone) {
        tagged.left = maker;
      } else if (is_beside(node, entry) && tagged.beside == kNone) {
        tagged.beside = maker;
        tagged.beside_operand = entry;
      } else {
        return false;
      }
    }
    return true;
  }

  void look_at(uint32_t n) {
    const Node& node = *nodes_[n];
    const plan::Node& of = plan_.nodes[n];
    if (node.matrix.thin.cut.immutable == 0) return;
    for (uint32_t i = 0; i < node.scalars; ++i)
      if (node.scalar(i).kind == device::Scalar::memory) return;
    TaggedNode tagged;
    for (uint32_t i = 0; i < of.operands.size(); ++i) {
      if (is_constant(of.operands[i])) continue;
      const uint32_t maker = maker_of(n, i);
      if (maker == kNone) return;
      const plan::Buffer& buffer = plan_.buffers[plan_.view(of.operands[i].index).buffer];
      if (!read_in_words(node, buffer, maker, tagged)) return;
    }
    if (tagged.left == kNone || !finds_late(n, tagged.left)) return;
    tagged.bytes = found_.nodes[n].bytes;
    found_.nodes[n] = tagged;
    for (const uint32_t maker : {tagged.left, tagged.beside}) {
      if (maker == kNone) continue;
      const device::Operand& result = nodes_[maker]->result(0);
      found_.nodes[maker].bytes =
          kWord * words_of(static_cast<DType>(result.dtype), result.elements);
    }
  }

  // Marks the waits for the row's makers; whether each task has one.
  bool finds_late(uint32_t n, uint32_t maker) {
    const plan::Node& of = plan_.nodes[n];
    std::vector<uint32_t> late;
    for (uint32_t t = of.first_task; t < of.first_task + of.tasks; ++t) {
      const plan::Task& task = plan_.tasks[t];
      const size_t before = late.size();
      for (uint32_t w = task.first_wait; w < task.first_wait + task.waits; ++w) {
        const plan::Wait& wait = plan_.waits[w];
        if (raiser_[wait.counter] == maker && wait.delta == 0 && !wait.first_trip)
          late.push_back(w);
      }
      if (late.size() == before) return false;
    }
    for (const uint32_t w : late) found_.late[w] = true;
    return true;
  }

  const plan::Plan& plan_;
  std::span<const Node* const> nodes_;
  TaggedNodes found_;
  std::vector<uint32_t> writer_;  // per buffer: the node, kMany, or kNone
  std::vector<uint32_t> raiser_;  // per counter, the same
};

}  // namespace

TaggedNodes tagged_nodes_of(const plan::Plan& plan, std::span<const Node* const> nodes) {
  return Finder(plan, nodes).run();
}

}  // namespace trek::resident
