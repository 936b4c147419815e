#include "emulator/device/gemv_of.h"

#include <algorithm>
#include <bit>

namespace trek::device {

using namespace gemv;  // NOLINT(google-build-using-namespace)

namespace {

DType type_of(const Operand& operand) { return static_cast<DType>(operand.dtype); }

class Maker {
 public:
  Maker(const Node& node, bool stands) : node_(node), of_(node.matrix), stands_(stands) {}

  std::optional<Gemv> run() {
    if (!is_thin(node_) || of_.thin.group.products != 0 || of_.m != 1 ||
        of_.tail_steps == Matrix::kNoTail || node_.results != 1)
      return std::nullopt;
    for (uint32_t i = 0; i < node_.all_operands; ++i)
      if (node_.operand(i).slice != 0) return std::nullopt;
    for (uint32_t i = 0; i < node_.scalars; ++i)
      if (node_.scalar(i).kind != Scalar::constant) return std::nullopt;
    to_.type = node_.operand(1).dtype;
    to_.n = static_cast<uint32_t>(of_.n);
    to_.k = static_cast<uint32_t>(of_.k);
    to_.columns = static_cast<uint32_t>(std::min(of_.tile_columns, of_.n));
    to_.across = static_cast<uint32_t>(of_.across);
    to_.packed = to_.result_words = Areas::kNone;
    const DType type = type_of(node_.operand(1));
    if (!is_f32_or_16(type) || type == DType::f32 || of_.k % kDeep != 0 || of_.n % kEight != 0 ||
        to_.columns % kEight != 0)
      return std::nullopt;
    if (!take_left() || !take_right() || !take_tail() || !take_result()) return std::nullopt;
    return to_;
  }

 private:
  // Bytes from a matrix of so many elements to the next.
  static std::optional<uint32_t> matrix_bytes(Map map, int64_t elements, int64_t each) {
    if (map.kind == Map::one) return 0;
    const int64_t bytes = elements * each;
    if (map.kind != Map::same || bytes > UINT32_MAX / 2) return std::nullopt;
    return static_cast<uint32_t>(bytes);
  }
  bool take_left() {
    const bool made = makes_left(node_);
    const Operand& row = node_.operand(made ? node_.phases().operand[0] : 0);
    to_.row = Gemv::memory;
    to_.left = row.offset;
    to_.form = static_cast<uint8_t>(RowForm::none);
    if (made) {
      const Phases& of = node_.phases();
      to_.form = of.form;
      const auto form = static_cast<RowForm>(of.form);
      if (form == RowForm::none || of.brought != 1 || of.n != to_.k || type_of(row) != DType::f32 ||
          of.form_type != to_.type)
        return false;
      if (to_.k > (form == RowForm::norm ? kMostNorm : kMostSoftmax)) return false;
      if (form == RowForm::norm) {
        const Operand& scale = node_.operand(of.scale);
        const Operand& shift = node_.operand(of.shift);
        const Step& adds = *node_.step(of.phase[1].tail.first_step);
        if (type_of(scale) != DType::f32 || type_of(shift) != DType::f32 || scale.offset % 8 != 0 ||
            shift.offset % 8 != 0)
          return false;
        to_.scale = scale.offset;
        to_.shift = shift.offset;
        to_.safe = as_float(static_cast<uint64_t>(node_.scalar(adds.inputs[1].index).value));
      }
    } else if (row.dtype != to_.type || of_.a_k != 1) {
      return false;
    }
    const int64_t each = made ? 4 : 2;
    to_.items = to_.k / (made ? 2 : 4);
    if (to_.items > kMostItems * kBlockThreads) return false;
    const auto matrix = matrix_bytes(of_.a_batch, made ? of_.k : of_.a_matrix, each);
    if (!matrix || *matrix % 8 != 0 || row.offset % 8 != 0) return false;
    to_.left_matrix = *matrix;
    return true;
  }

  // As few multiplications of a warp as may be, and few sums.
  static uint32_t shares_of(uint32_t eights, uint32_t steps) {
    uint32_t best = 0;
    uint32_t least = UINT32_MAX;
    for (uint32_t shares = 1; shares <= kWarps; shares *= 2) {
      const uint32_t groups = kWarps / shares;
      const uint32_t own = (eights + groups - 1) / groups;
      const uint32_t cost = own * ((steps + shares - 1) / shares);
      if (own > kMostEights || cost >= least) continue;
      least = cost;
      best = shares;
    }
    return best;
  }

  bool take_right() {
    const Operand& right = node_.operand(1);
    to_.right = right.offset;
    to_.by_line = of_.b_k == 1 ? 1 : 0;
    const int64_t pitch = 2 * (to_.by_line != 0 ? of_.b_column : of_.b_k);
    if ((to_.by_line == 0 && of_.b_column != 1) || right.offset % 16 != 0 || pitch % 16 != 0 ||
        pitch > UINT32_MAX / 2)
      return false;
    to_.pitch = static_cast<uint32_t>(pitch);
    const auto matrix = matrix_bytes(of_.b_batch, of_.b_matrix, 2);
    if (!matrix || *matrix % 16 != 0) return false;
    to_.right_matrix = *matrix;
    to_.streams = of_.thin.cut.immutable != 0 || stands_ ? 1 : 0;
    const uint32_t room = to_.streams != 0 ? kStage : kPanelBytes;
    const uint32_t eight = kEight * (2 * to_.k + (to_.by_line != 0 ? kLinePad : 0));  // bytes
    if (to_.streams == 0 || eight <= room) {
      to_.part_k = to_.k;
      to_.part_columns = std::min({kEight * (room / eight), to_.columns, kMostColumns});
      if (to_.streams == 0 && to_.part_columns < to_.columns) return false;
    } else {
      // The columns of an eight in parts of k, as few as have room.
      const uint32_t pad = to_.by_line != 0 ? kLinePad : 0;
      const uint32_t most = (room / kEight - pad) / 2 / kDeep * kDeep;
      const uint32_t parts = (to_.k + most - 1) / most;
      to_.part_k = ((to_.k + parts - 1) / parts + kDeep - 1) / kDeep * kDeep;
      to_.part_columns = kEight;
    }
    to_.line = 2 * to_.part_k + kLinePad;
    uint32_t shares = 0;
    // Fewer columns where a warp has eights of no more.
    while (to_.part_columns != 0) {
      shares = shares_of(to_.part_columns / kEight, to_.part_k / kDeep);
      if (shares != 0) break;
      if (to_.streams == 0) return false;
      to_.part_columns -= kEight;
    }
    to_.share_bits = static_cast<uint8_t>(std::bit_width(shares) - 1);
    return to_.part_columns != 0;
  }

  bool take_tail() {
    to_.tails = of_.tail_steps;
    uint32_t operands = 0;
    for (uint32_t s = 0; s < of_.tail_steps; ++s) {
      GemvTail& to = to_.tail[s];
      to.step = of_.tail[s];
      to.operand = kMostBeside;
      if (to.step.second == TailStep::scalar)
        to.scalar = as_float(static_cast<uint64_t>(node_.scalar(to.step.index).value));
      if (!to.step.reads_operand()) continue;
      const Operand& from = node_.operand(to.step.index);
      if (!is_f32_or_16(type_of(from)) || from.scalar != kNoScalar || from.offset % 4 != 0)
        return false;
      if (operands == kMostBeside) return false;
      to.operand = static_cast<uint8_t>(operands++);
      const bool is_f32 = type_of(from) == DType::f32;
      if (!is_f32 && to_.besides != 0 && to_.besides != from.dtype) return false;
      if (!is_f32) to_.besides = from.dtype;
      GemvBeside& beside = to_.beside[to.operand];
      beside.offset = from.offset;
      beside.mask = is_f32 ? UINT32_MAX : UINT32_MAX << 16;
      beside.by_column = to.step.second == TailStep::row ? 1 : 0;
      beside.pair_bits = is_f32 ? 0 : 1;
      beside.shift = 2;
    }
    // What is rounded as the result is rounded there.
    if (to_.tails != 0 && to_.tail[to_.tails - 1].step.to == node_.result(0).dtype)
      to_.tail[to_.tails - 1].step.to = static_cast<uint8_t>(DType::f32);
    const auto adds = [&](uint32_t s) {
      const GemvTail& tail = to_.tail[s];
      return static_cast<Opcode>(tail.step.opcode) == Opcode::Add && tail.operand == s &&
             static_cast<DType>(tail.step.to) == DType::f32;
    };
    while (to_.adds < to_.tails && adds(to_.adds)) ++to_.adds;
    return true;
  }

  bool take_result() {
    const Operand& result = node_.result(0);
    if (!is_f32_or_16(type_of(result))) return false;
    to_.result = result.offset;
    to_.result_type = result.dtype;
    to_.inner = UINT32_MAX;
    if (result.map.kind == Map::same) return true;
    if (result.map.kind != Map::axes || result.elements > INT32_MAX) return false;
    // Elements side by side, and lines of them.
    const Axis* axes = node_.axis(result.map.first);
    const uint32_t count = result.map.count;
    if (count > 2 || (count == 2 && (axes[1].stride != 1 || axes[1].size > INT32_MAX)))
      return false;
    to_.inner = count == 1 ? 1 : static_cast<uint32_t>(axes[1].size);
    to_.outer = axes[0].stride;
    return true;
  }

  const Node& node_;
  const Matrix& of_;
  bool stands_;
  Gemv to_ = {};
};

}  // namespace

std::optional<Gemv> gemv_of(const Node& node, bool stands) { return Maker(node, stands).run(); }

}  // namespace trek::device
