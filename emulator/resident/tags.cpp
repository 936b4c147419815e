#include "emulator/resident/tags.h"

#include <algorithm>
#include <cstddef>

#include "emulator/device/matrix_thin_cut.h"
#include "emulator/device/word_places.h"
#include "emulator/plan/node_uses.h"
#include "emulator/resident/late_waits.h"
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

class Finder {
 public:
  Finder(const plan::Plan& plan, std::span<const Node* const> nodes,
         const std::vector<bool>& recurrent, std::span<const GemvReads> gemv)
      : plan_(plan),
        nodes_(nodes),
        recurrent_(recurrent),
        gemv_(gemv),
        found_(plan, late_nodes(plan, gemv)) {}

  TaggedNodes run() {
    if (plan_.device.has_tags) {
      writer_ = plan::sole_writers(plan_);
      find_raisers();
      for (uint32_t n = 0; n < plan_.nodes.size(); ++n)
        if (is_simple(n)) look_at(n);
      forget_unlinked();
    }
    return std::move(found_);
  }

 private:
  static std::vector<bool> late_nodes(const plan::Plan& plan, std::span<const GemvReads> gemv) {
    std::vector<bool> may(plan.nodes.size(), true);
    if (plan.device.interprets)
      for (size_t n = 0; n < may.size(); ++n) may[n] = gemv[n].is;
    return may;
  }
  void find_raisers() {
    raiser_.assign(plan_.counters.size(), kNone);
    for (const plan::Task& task : plan_.tasks)
      for (const uint32_t counter : plan_.signals_of(task)) {
        uint32_t& raiser = raiser_[counter];
        raiser = raiser == kNone || raiser == task.node ? task.node : kMany;
      }
  }

  // One row, one part, an output a thread; of one product all that stands beside it in registers. Where it is interpreted, one
  // that is executed as GEMV or whose columns stay (device/matrix_thin_stays.h), or a recurrent step, and of these two the
  // descriptor is in a slot.
  bool is_simple(uint32_t n) const {
    const Node* node = nodes_[n];
    if (node == nullptr || !device::is_thin(*node)) return false;
    const device::Thin& cut = node->matrix.thin.cut;
    if (plan_.device.interprets && !found_.may_be_late[n] &&
        (cut.stays == 0 || (is_group(*node) && !recurrent_[n]) || !has_room_for_areas(*node)))
      return false;
    return cut.rows == 1 && cut.alone != 0 &&
           (is_group(*node) || node->matrix.tail_steps != device::Matrix::kNoTail);
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
    if (made.region != plan_.nodes[reader].region || !is_simple(maker) || made.put) return kNone;
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
  // The node behind a product that alone in its loop writes the product's row, or some elements of it, and may give these in
  // words which the next trip's task reads; tagged then says where they are. Else kNone. What else writes the row does so
  // outside of the loop, and is read as it lies on the first trip.
  uint32_t maker_of_carried(uint32_t reader, TaggedNode& tagged) const {
    const plan::Operand& from = plan_.nodes[reader].operands[0];
    const uint32_t region = plan_.nodes[reader].region;
    if (from.kind != plan::Operand::Kind::view || !plan::has_trips_in_turn(plan_, region))
      return kNone;
    const uint32_t number = plan_.view(from.index).buffer;
    const uint32_t maker = writer_in_loop(region, number);
    if (maker == kNone || maker <= reader) return kNone;
    const plan::Node& made = plan_.nodes[maker];
    const Node* node = nodes_[maker];
    const uint32_t index = result_index(maker, number);
    if (!is_simple(maker) || node->matrix.m != 1 ||
        (found_.nodes[maker].bytes != 0 && found_.nodes[maker].result_index != index))
      return kNone;
    const Node& reads = *nodes_[reader];
    const device::Operand& result = node->result(index);
    const int64_t begin = (result.offset - plan_.buffers[number].offset) / 4;
    const int64_t words = made.put ? node->matrix.n : result.elements;
    const bool is_f32 = static_cast<DType>(result.dtype) == DType::f32 &&
                        static_cast<DType>(reads.operand(0).dtype) == DType::f32;
    if (!is_f32 || begin + words > reads.matrix.k || device::makes_left(reads)) return kNone;
    if (made.put) {
      const isa::Shape& shape = made.put->shape;
      if (shape.rank() == 0 || shape[shape.rank() - 1] != words || words > device::kBlockThreads)
        return kNone;
    } else if (result.map.kind != device::Map::same || words != reads.matrix.k || words % 4 != 0 ||
               words > kMostWords) {
      return kNone;
    }
    tagged.is_carried = true;
    tagged.left_begin = static_cast<uint32_t>(begin);
    tagged.left_words = static_cast<uint32_t>(words);
    return maker;
  }
  // Steps of a loop have their rows in words all together, or none of them.
  void forget_unlinked() {
    for (uint32_t r = 0; r < plan_.regions.size(); ++r) {
      const plan::Region& loop = plan_.regions[r];
      const uint32_t first = loop.first_node;
      if (first == loop.end_node || !recurrent_[first] || plan_.nodes[first].region != r) continue;
      const std::span steps(found_.nodes.data() + first, loop.end_node - first);
      if (std::ranges::all_of(steps, [](const TaggedNode& of) { return of.left != kNone; }))
        continue;
      std::ranges::fill(steps, TaggedNode{});
      for (uint32_t t = loop.first_task; t < loop.end_task; ++t) {
        const plan::Task& task = plan_.tasks[t];
        std::fill_n(found_.late.begin() + task.first_wait, task.waits, false);
        found_.more[t].clear();
      }
    }
  }

  // The one node of a loop that writes a buffer, or kNone.
  uint32_t writer_in_loop(uint32_t region, uint32_t buffer) const {
    uint32_t writer = kNone;
    uint32_t writes = 0;
    for (uint32_t n = plan_.regions[region].first_node; n < plan_.regions[region].end_node; ++n)
      plan::each_write(plan_.nodes[n], [&](plan::Operand to) {
        if (to.kind != plan::Operand::Kind::view || plan_.view(to.index).buffer != buffer) return;
        writer = n;
        ++writes;
      });
    return writes == 1 ? writer : kNone;
  }
  uint32_t result_index(uint32_t maker, uint32_t buffer) const {
    return plan::result_in(plan_, plan_.nodes[maker], buffer);
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
  // Whether of a GEMV it is the rows of its matrices.
  bool is_row_of_matrices(uint32_t n, uint32_t entry, uint32_t maker) const {
    const Node& node = *nodes_[n];
    const device::Matrix& of = node.matrix;
    return gemv_[n].in_parts && entry == 0 && !device::makes_left(node) && of.a_matrix == of.k &&
           node.operand(0).elements % of.k == 0 && reads_words_beside_row(maker);
  }
  // Whether beside its row a node reads nothing that is written but words.
  bool reads_words_beside_row(uint32_t n) const {
    if (found_.nodes[n].left != kNone) return true;
    const uint32_t row = row_of(*nodes_[n]);
    for (const plan::Operand& operand : plan_.nodes[n].operands)
      if (!is_constant(operand) && !is_all_that_reads(n, operand, row)) return false;
    return true;
  }
  static uint32_t row_of(const Node& node) {
    return device::makes_left(node) ? node.phases().operand[0] : 0;
  }
  // Whether operand `entry` of a node's descriptor, and no other, reads what `from` is in.
  bool is_all_that_reads(uint32_t n, const plan::Operand& from, uint32_t entry) const {
    const plan::Buffer& buffer = plan_.buffers[plan_.view(from.index).buffer];
    for (uint32_t e = 0; e < nodes_[n]->all_operands; ++e)
      if (is_in(nodes_[n]->operand(e), buffer) != (e == entry)) return false;
    return true;
  }
  static bool is_in(const device::Operand& from, const plan::Buffer& buffer) {
    return static_cast<DType>(from.dtype) != DType::none && from.scalar == device::kNoScalar &&
           from.offset >= buffer.offset && from.offset < buffer.offset + buffer.bytes;
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
      if (!is_in(from, buffer)) continue;
      if (from.offset != buffer.offset) return false;
      const bool is_whole = is_row(node, entry) && (!gemv_[n].is || gemv_[n].takes_words);
      if ((is_whole || is_row_of_matrices(n, entry, maker)) && tagged.left == kNone) {
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
    const bool stands = gemv_[n].in_parts && gemv_[n].line != kNone;
    if (node.matrix.thin.cut.immutable == 0 && !stands) return;
    for (uint32_t i = 0; i < node.scalars; ++i)
      if (node.scalar(i).kind == device::Scalar::memory) return;
    TaggedNode tagged;
    if (is_group(node) ? !reads_group(n, tagged) : !reads_one(n, tagged)) return;
    std::vector<uint32_t> late;
    if (tagged.left != kNone) {
      late = waits_of_all(n, tagged.left, tagged.is_carried ? 1 : 0);
      if (late.empty()) return;
    }
    if (tagged.line != kNone) {
      const std::vector<uint32_t> of_line = waits_of_all(n, tagged.line);
      if (of_line.empty()) return;
      late.insert(late.end(), of_line.begin(), of_line.end());
    }
    if (late.empty()) return;
    for (const uint32_t w : late) found_.late[w] = true;
    if (tagged.is_carried) wait_on_first_trip(n, late);
    tagged.bytes = found_.nodes[n].bytes;
    tagged.result_index = found_.nodes[n].result_index;
    found_.nodes[n] = tagged;
    if (tagged.left != kNone) give(tagged.left, plan_.view(tagged.left_view).buffer);
    if (tagged.line != kNone) give(tagged.line, plan_.view(tagged.line_view).buffer);
    if (tagged.beside != kNone) give(tagged.beside, plan_.view(tagged.beside_view).buffer);
  }
  void give(uint32_t maker, uint32_t buffer) {
    TaggedNode& of = found_.nodes[maker];
    of.result_index = result_index(maker, buffer);
    const device::Operand& result = nodes_[maker]->result(of.result_index);
    const int64_t elements = plan_.nodes[maker].put ? nodes_[maker]->matrix.n : result.elements;
    of.bytes = device::kWord * (elements / device::thin::in_word(static_cast<DType>(result.dtype)));
  }
  // What comes in words of the trip before does not on a loop's first trip.
  void wait_on_first_trip(uint32_t n, const std::vector<uint32_t>& late) {
    const plan::Node& of = plan_.nodes[n];
    for (uint32_t t = of.first_task; t < of.first_task + of.tasks; ++t)
      for (const uint32_t w : late) {
        const plan::Task& task = plan_.tasks[t];
        if (w < task.first_wait || w >= task.first_wait + task.waits) continue;
        plan::Wait wait = plan_.waits[w];
        wait.first_trip = true;
        found_.more[t].push_back(wait);
      }
  }

  // Whether all that a product reads is never written or comes in words.
  bool reads_one(uint32_t n, TaggedNode& tagged) const {
    const plan::Node& of = plan_.nodes[n];
    for (uint32_t i = 0; i < of.operands.size(); ++i) {
      const plan::Operand& from = of.operands[i];
      if (is_constant(from)) continue;
      if (gemv_[n].in_parts && gemv_[n].row_is_here &&
          is_all_that_reads(n, from, row_of(*nodes_[n])))
        continue;
      if (is_line(n, from)) {
        tagged.line = gemv_[n].line;
        tagged.line_view = from.index;
        continue;
      }
      uint32_t maker = maker_of(n, i);
      const bool is_carried = maker == kNone && i == 0;
      if (is_carried) maker = maker_of_carried(n, tagged);
      if (maker == kNone || !read_in_words(n, i, maker, tagged)) return false;
      if (is_carried && (tagged.left != maker || tagged.beside == maker)) return false;
    }
    return true;
  }
  // Whether an operand is the columns of a GEMV, whose line may come in words.
  bool is_line(uint32_t n, const plan::Operand& from) const {
    const uint32_t maker = gemv_[n].line;
    if (!gemv_[n].in_parts || maker == kNone || from.kind != plan::Operand::Kind::view)
      return false;
    const uint32_t buffer = plan_.view(from.index).buffer;
    if (writer_[buffer] != maker || !is_all_that_reads(n, from, 1) || !is_simple(maker) ||
        nodes_[maker]->matrix.m != 1 || nodes_[maker]->matrix.n % 4 != 0 ||
        nodes_[maker]->matrix.n > 2 * kMostWords || !reads_words_beside_row(maker))
      return false;
    return found_.nodes[maker].bytes == 0 ||
           found_.nodes[maker].result_index == result_index(maker, buffer);
  }
  // The same of several that a program joins: of what stands beside their sums each task has what it is told before.
  bool reads_group(uint32_t n, TaggedNode& tagged) const {
    const plan::Node& of = plan_.nodes[n];
    const Node& node = *nodes_[n];
    uint32_t maker = maker_of(n, 0);
    if (maker == kNone) maker = maker_of_carried(n, tagged);
    if (maker == kNone || node.matrix.thin.cut.fours == 0 ||
        node.operand(0).elements != node.matrix.k)
      return false;
    tagged.left = maker;
    tagged.left_view = of.operands[0].index;
    for (uint32_t i = 1; i < of.operands.size(); ++i) {
      if (is_constant(of.operands[i])) continue;
      const uint32_t buffer = plan_.view(of.operands[i].index).buffer;
      if (plan::has_trips_in_turn(plan_, of.region) &&
          !plan::is_written_in(plan_, plan_.regions[of.region], buffer))
        continue;
      const uint32_t writer =
          tagged.is_carried ? writer_in_loop(of.region, buffer) : writer_[buffer];
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

  // The waits of a node's tasks for those of `raiser` in the same trip, or so many before, if each task has one; else none.
  std::vector<uint32_t> waits_of_all(uint32_t n, uint32_t raiser, uint8_t delta = 0) const {
    const plan::Node& of = plan_.nodes[n];
    std::vector<uint32_t> found;
    for (uint32_t t = of.first_task; t < of.first_task + of.tasks; ++t) {
      const plan::Task& task = plan_.tasks[t];
      const size_t before = found.size();
      for (uint32_t w = task.first_wait; w < task.first_wait + task.waits; ++w) {
        const plan::Wait& wait = plan_.waits[w];
        if (raiser_[wait.counter] == raiser && wait.delta == delta && !wait.first_trip)
          found.push_back(w);
      }
      if (found.size() == before) return {};
    }
    return found;
  }

  const plan::Plan& plan_;
  std::span<const Node* const> nodes_;
  const std::vector<bool>& recurrent_;
  std::span<const GemvReads> gemv_;
  TaggedNodes found_;
  std::vector<uint32_t> writer_;  // per buffer: plan::sole_writers()
  std::vector<uint32_t> raiser_;  // per counter: the node, kMany, or kNone
};

}  // namespace

TaggedNodes tagged_nodes_of(const plan::Plan& plan, std::span<const Node* const> nodes,
                            const std::vector<bool>& recurrent, std::span<const GemvReads> gemv) {
  TaggedNodes found = Finder(plan, nodes, recurrent, gemv).run();
  settle_late_waits(plan, found);
  // The kernel that has GEMV has no moves in words.
  const bool has_gemv = std::ranges::any_of(gemv, &GemvReads::is);
  if (plan.device.has_tagged_moves && !has_gemv) find_tagged_moves(plan, nodes, found);
  return found;
}

}  // namespace trek::resident
