// Steps of optimizers that make their gradients themselves: of a box of w, the product of two matrices of f32, [k][m] and
// [k][n], by the dot order, with which its elements are stepped at once; or of elements of a bias, the sum of lines, by the
// reduction order. m and n are multiples of 4, k is one of 8, and at most two blocks of 64.
//
// All comes to shared memory: both operands, k by k, and for each thread the elements of w and its moments that it steps.
// What stands in memory before the task's inputs do (standing.h) is on its way before the wait; the rest comes in parts of k,
// the first of which are multiplied while others are on their way. On Hopper a lane of each warp asks for boxes, elsewhere
// all lanes copy. Half of the warps have a block of k, and a lane a patch of some rows, whose number the box says, and eight
// columns.
#pragma once

#include "emulator/device/rows.h"
#include "emulator/device/standing.h"
#include "emulator/device/step_asked.h"
#include "isa/semantics/dot.h"
#include "isa/semantics/reduce.h"
#ifdef __CUDA__
#include "emulator/device/boxes.h"
#include "emulator/device/matrix_f32_part.h"
#endif

namespace trek::device {

namespace train_detail {

// Operand 0 or 1 of the product.
TREK_UNIT const Operand& made_from(const Node& node, uint32_t which) {
  return node.operand(node.operands + which);
}

// The box of a number; rows and columns that exist.
struct MadeBox {
  uint32_t row;
  uint32_t column;
  uint32_t rows;
  uint32_t columns;

  TREK_ON_DEVICE MadeBox(const Matrix& of, int64_t number) {
    const auto across = static_cast<uint32_t>(of.across);
    const uint32_t down = static_cast<uint32_t>(number) / across;
    row = down * static_cast<uint32_t>(of.tile_rows);
    column =
        (static_cast<uint32_t>(number) - down * across) * static_cast<uint32_t>(of.tile_columns);
    rows = least(of.m - row, of.tile_rows);
    columns = least(of.n - column, of.tile_columns);
  }

 private:
  TREK_ON_DEVICE static uint32_t least(int64_t a, int64_t b) {
    return static_cast<uint32_t>(a < b ? a : b);
  }
};

#ifdef __CUDA__

namespace made {

using matrix_f32::Float2;
using matrix_f32::Float4;
using matrix_f32::load_four;
using matrix_f32::store_four;
using matrix_f32::turned;

inline constexpr uint32_t kWarps = kBlockThreads / 32;
inline constexpr uint32_t kGroups = 2;
inline constexpr uint32_t kOfGroup = kWarps / kGroups;  // warps, which have all of a box
inline constexpr uint32_t kColumns = 8;                 // of a patch
inline constexpr uint32_t kMostRows = 6;
inline constexpr uint32_t kDown = 4;  // lanes of a warp below one another
inline constexpr uint32_t kWarpColumns = 64;
inline constexpr uint32_t kPiece = 16;
inline constexpr uint32_t kOutputs = 4 * kBlockThreads;  // of a box with patches of a row
inline constexpr uint32_t kBlock = semantics::kDotBlock;
// k that are multiplied in a turn: of more there would be more instructions, and as much time.
inline constexpr uint32_t kStep = 4;
inline constexpr uint32_t kParts = 4;  // of a block of k
inline constexpr uint32_t kPart = kBlock / kParts;
static_assert(kGroups * kParts == kWarps && kPart == kMadePart);

// Where in shared memory operands are: behind what threads ask for of a box, four tensors. Of each k the left one's lines, and
// behind all k of that the right one's. The sums of both groups take their place.
inline constexpr uint32_t kPanel = Asked::kFirst + 4 * kMostRows * Asked::kPitch;
inline constexpr uint32_t kLines = 128 + kMostRows * kOutputs / 128;  // of both, at most
inline constexpr uint32_t kSums = 4 * kMostRows * kOutputs;
static_assert(kGroups * kBlock == kMostMade && kPanel + 4 * kLines * kMostMade <= kSharedBytes &&
              kGroups * kSums <= 4 * kLines * kMostMade);
static_assert(kPanel % 128 == 0 && Asked::kFirst % 128 == 0);  // as boxes want it

// A task, as all threads see it.
struct Product {
  const std::byte* left;  // the box's first row, at k = 0
  const std::byte* right;
  uint32_t left_pitch;  // bytes from a k to the next
  uint32_t right_pitch;
  uint32_t k;
  uint32_t tile_rows;
  uint32_t tile_columns;
  MadeBox box;

  TREK_ON_DEVICE Product(const Task& task, int64_t number)
      : left_pitch(4 * static_cast<uint32_t>(task.node().matrix.m)),
        right_pitch(4 * static_cast<uint32_t>(task.node().matrix.n)),
        k(static_cast<uint32_t>(task.node().matrix.k)),
        tile_rows(static_cast<uint32_t>(task.node().matrix.tile_rows)),
        tile_columns(static_cast<uint32_t>(task.node().matrix.tile_columns)),
        box(task.node().matrix, number) {
    left = task.memory(made_from(task.node(), 0)) + 4 * box.row;
    right = task.memory(made_from(task.node(), 1)) + 4 * box.column;
  }
  TREK_ON_DEVICE static uint32_t panel(const Task& task) {
    return shared_address(task.shared<std::byte>(kPanel));
  }
  TREK_ON_DEVICE uint32_t left_panel(const Task& task, uint32_t at) const {
    return panel(task) + 4 * tile_rows * at;
  }
  TREK_ON_DEVICE uint32_t right_panel(const Task& task, uint32_t at) const {
    return panel(task) + 4 * (tile_rows * kMostMade + tile_columns * at);
  }
  // Asks for so many k of an operand, from `first` on.
  TREK_ON_DEVICE void ask_left(const Task& task, uint32_t first, uint32_t depth) const {
    bring(task, left_panel(task, first), left + uint64_t{first} * left_pitch, left_pitch, depth,
          tile_rows, box.rows);
  }
  TREK_ON_DEVICE void ask_right(const Task& task, uint32_t first, uint32_t depth) const {
    bring(task, right_panel(task, first), right + uint64_t{first} * right_pitch, right_pitch, depth,
          tile_columns, box.columns);
  }
  // How many of so many k from `first` on there are.
  TREK_ON_DEVICE uint32_t depth_of(uint32_t first, uint32_t most) const {
    const uint32_t left_over = first < k ? k - first : 0;
    return left_over < most ? left_over : most;
  }

 private:
  // So many lines of each k, of which the last that exist stand for those that do not: of several k at once where a warp has
  // lanes for them.
  TREK_ON_DEVICE static void bring(const Task& task, uint32_t to, const std::byte* from,
                                   uint32_t pitch, uint32_t depth, uint32_t lines, uint32_t exist) {
    const uint32_t pieces = lines / 4;
    const uint32_t bits = 32 - __builtin_clz(2 * pieces - 1) - 1;  // lanes for a k, 1 << bits
    const uint32_t piece = task.thread() & ((1u << bits) - 1);
    if (piece >= pieces) return;
    const uint32_t together = kBlockThreads >> bits;
    uint32_t at = task.thread() >> bits;
    const uint32_t last = exist / 4 - 1;
    from += uint64_t{at} * pitch + (piece < last ? piece : last) * kPiece;
    to += 4 * lines * at + piece * kPiece;
    constexpr uint32_t kUnrolled = 4;
    TREK_ROLLED
    for (; at < depth; at += kUnrolled * together) {
      TREK_UNROLLED
      for (uint32_t i = 0; i < kUnrolled; ++i) {
        if (at + i * together < depth) copy_ahead<kPiece>(to, from);
        from += uint64_t{together} * pitch;
        to += 4 * lines * together;
      }
    }
  }
};

// The elements that a thread steps, four in a turn, neighbours beside those of the threads beside it.
struct Turns {
  uint32_t turns;
  uint32_t row;   // of the first
  uint32_t rows;  // on to the next
  uint32_t column;

  TREK_ON_DEVICE Turns(const Task& task, uint32_t tile_rows, uint32_t tile_columns) {
    const uint32_t fours = tile_columns / 4;  // a power of two
    turns = tile_rows * tile_columns / kOutputs;
    row = task.thread() / fours;
    rows = kBlockThreads / fours;
    column = task.thread() % fours * 4;
  }
  TREK_ON_DEVICE bool exists(const MadeBox& box, uint32_t turn) const {
    return row + turn * rows < box.rows && column < box.columns;
  }
  // In fours of w.
  TREK_ON_DEVICE int64_t place(const MadeBox& box, uint32_t turn, uint32_t right_pitch) const {
    return (int64_t{box.row + row + turn * rows} * right_pitch + 4 * (box.column + column)) /
           kPiece;
  }
};

// Asks for what is stepped.
TREK_UNIT void ask_own(const Task& task, const Product& of) {
  const Turns turns(task, of.tile_rows, of.tile_columns);
  const Asked fours(task);
  const uint32_t tensors = task.node().operands - 1u;
  const int64_t first = kPiece * turns.place(of.box, 0, of.right_pitch);
  const int64_t step = int64_t{turns.rows} * of.right_pitch;
  TREK_ROLLED
  for (uint32_t t = 0; t < tensors; ++t) {
    const std::byte* from = task.memory(task.node().operand(t)) + first;
    TREK_ROLLED
    for (uint32_t i = 0; i < turns.turns; ++i, from += step)
      if (turns.exists(of.box, i)) fours.ask(t * turns.turns + i, from);
  }
}

// Asks for what stands there, in a group of copies; or for the rest, in a group for each part of k, and one of what is
// stepped.
TREK_TILE void ask_copies(const Task& task, const Product& of, Standing stands, bool rest) {
  const Standing asks = rest ? stands.others() : stands;
  TREK_ROLLED
  for (uint32_t part = 0; part < kParts; ++part) {
    TREK_ROLLED
    for (uint32_t first = part * kPart; first < of.k; first += kBlock) {
      if (asks.left) of.ask_left(task, first, of.depth_of(first, kPart));
      if (asks.right) of.ask_right(task, first, of.depth_of(first, kPart));
    }
    if (rest) commit_copies();
  }
  if (asks.own) ask_own(task, of);
  commit_copies();
}

#ifdef TREK_SM90A
// The same in boxes, and says before all else what is to come: a warp for the part of k of its number, and the first one for
// what is stepped, too.
TREK_TILE void ask_boxes(const Task& task, const Product& of, Standing stands, bool rest) {
  if (!tensor::elected()) return;
  const Standing asks = rest ? stands.others() : stands;
  const uint32_t warp = task.thread() / 32;
  const tensor::TensorMap* maps = boxes::maps_of(task);
  tensor::before_engine(true);
  const uint32_t first = warp * kPart;
  const uint32_t part = boxes::part_barrier(warp);
  const bool is_there = first < of.k;
  if (!rest) boxes::expect(part, is_there ? 4 * kPart * (of.tile_rows + of.tile_columns) : 0);
  if (asks.left && is_there)
    tensor::copy_box(of.left_panel(task, first), maps, part, of.box.row, first, 0);
  if (asks.right && is_there)
    tensor::copy_box(of.right_panel(task, first), maps + 1, part, of.box.column, first, 0);
  if (warp != 0) return;
  const uint32_t tensors = task.node().operands - 1u;
  const uint32_t bytes = 4 * of.tile_rows * of.tile_columns;
  const uint32_t own = boxes::own_barrier();
  if (!rest) boxes::expect(own, tensors * bytes);
  if (!asks.own) return;
  const uint32_t to = shared_address(task.shared<std::byte>(Asked::kFirst));
  TREK_ROLLED
  for (uint32_t t = 0; t < tensors; ++t)
    tensor::copy_box(to + t * bytes, maps + 2 + t, own, of.box.column, of.box.row, 0);
}
#endif

// Asks for what stands there; or waits for the task's inputs, and asks for the `rest`. False where the task is not to be
// executed, and nothing is on its way. One function, so that its instructions are known behind the wait.
TREK_UNIT_CALL bool ask(Task task, int64_t number, bool rest) {
  const Standing stands(task.node());
  const Product of(task, number);
  const bool executes = !rest || !is_early(task.node()) || await_inputs();
#ifdef TREK_SM90A
  if (task.node().matrix.has_boxes != 0) {
    ask_boxes(task, of, stands, rest);
    if (executes) return true;
    tensor::BoxBarriers& barriers = boxes::barriers();
    const uint32_t parity = barriers.parity;
    tensor::barrier_wait(boxes::part_barrier(task.thread() / 32), parity);
    tensor::barrier_wait(boxes::own_barrier(), parity);
    task.sync();
    if (task.thread() == 0) barriers.parity = parity ^ 1;
    return false;
  }
#endif
  if (executes)
    ask_copies(task, of, stands, rest);
  else
    wait_for_copies(0);
  return executes;
}

// A patch's lines of the left operand at one k, of which fours are at `fours`, and what is left over at `rest`.
template <uint32_t kRows>
struct Left {
  static constexpr uint32_t kFours = kRows / 4 * 4;
  static constexpr uint32_t kRest = kRows % 4;
  float x[kRows];

  TREK_ON_DEVICE void load(uint32_t fours, uint32_t rest) {
    TREK_UNROLLED
    for (uint32_t i = 0; i < kFours; i += 4) {
      const Float4 four = load_four(fours + i * kDown * 4);
      TREK_UNROLLED
      for (uint32_t e = 0; e < 4; ++e) x[i + e] = four[e];
    }
    static_assert(kRest < 3);
    if constexpr (kRest == 1) {
      x[kFours] = matrix_f32::load_word(rest);
    } else if constexpr (kRest == 2) {
      const Float2 two = matrix_f32::load_two(rest);
      x[kFours] = two[0];
      x[kFours + 1] = two[1];
    }
  }
};
// And of the right one: two fours, beside each of which all lanes' stand.
struct Right {
  Float4 x[2];
  TREK_ON_DEVICE void load(uint32_t at) {
    x[0] = load_four(at);
    x[1] = load_four(at + kWarpColumns / 2 * 4);
  }
};

// Makes the gradient of a box for which all has been asked: a group has all outputs of a block of 64 k, and the sums of both
// are added where threads have what they step (AskedTensors).
template <uint32_t kRows>
TREK_UNIT_CALL void multiply(Task task, int64_t number) {
  const Product of(task, number);
  const uint32_t warp = task.thread() / 32;
  const uint32_t group = warp / kOfGroup;
  const uint32_t lane = task.thread() % 32;
  const uint32_t down = matrix_f32::lane_down(lane);
  const uint32_t across = matrix_f32::lane_across(lane);
  const uint32_t beside = of.tile_columns / kWarpColumns;  // 1 or 2
  const uint32_t row = warp % kOfGroup / beside * (kDown * kRows);
  const uint32_t column = warp % beside * kWarpColumns + 4 * across;
  constexpr uint32_t kFours = Left<kRows>::kFours;
  const uint32_t rest_row = row + kFours * kDown + Left<kRows>::kRest * down;
  const uint32_t left_pitch = 4 * of.tile_rows;
  const uint32_t right_pitch = 4 * of.tile_columns;
  uint32_t left = of.left_panel(task, group * kBlock) + 4 * (row + 4 * down);
  uint32_t rest = of.left_panel(task, group * kBlock) + 4 * rest_row;
  uint32_t right = of.right_panel(task, group * kBlock) + 4 * column;
  const uint32_t depth = of.depth_of(group * kBlock, kBlock);
#ifdef TREK_SM90A
  const bool in_boxes = task.node().matrix.has_boxes != 0;
  const uint32_t parity = boxes::barriers().parity;
#endif
  float sum[kRows][kColumns] = {};
  Left<kRows> x[2] = {};
  Right y[2] = {};
  // What is at the next k.
  const auto load = [&](uint32_t to) TREK_TILE_LAMBDA {
    x[to].load(left, rest);
    y[to].load(right);
    left += left_pitch;
    rest += left_pitch;
    right += right_pitch;
  };
  const auto wait = [&](uint32_t part) TREK_TILE_LAMBDA {
#ifdef TREK_SM90A
    if (in_boxes) return tensor::barrier_wait(boxes::part_barrier(group * kParts + part), parity);
#endif
    wait_for_copies(kParts - part);  // behind the last are those of what is stepped
    task.sync();
  };
  TREK_ROLLED
  for (uint32_t k = 0; k < kBlock; k += kStep) {
    if (k % kPart == 0) {
      wait(k / kPart);
      if (k < depth) load(0);
    }
    if (k >= depth) continue;
    TREK_UNROLLED
    for (uint32_t j = 0; j < kStep; ++j) {
      const bool is_last = j + 1 == kStep && ((k + kStep) % kPart == 0 || k + kStep >= depth);
      if (!is_last) load((j + 1) % 2);
      TREK_UNROLLED
      for (uint32_t i = 0; i < kRows; ++i) {
        TREK_UNROLLED
        for (uint32_t n = 0; n < kColumns; ++n) {
          // To and fro, so that each multiplication shares an operand with the one before.
          const uint32_t e = i % 2 == 0 ? n : kColumns - 1 - n;
          sum[i][e] = semantics::fma(x[j % 2].x[i], y[j % 2].x[e / 4][e % 4], sum[i][e]);
        }
      }
    }
  }
  task.sync();  // all have read the operands: the sums take their place
  const uint32_t sums = Product::panel(task);
  const uint32_t pitch = 4 * of.tile_columns;
  TREK_UNROLLED
  for (uint32_t i = 0; i < kRows; ++i) {
    const uint32_t line =
        i < kFours ? row + i / 4 * 4 * kDown + 4 * down + i % 4 : rest_row + (i - kFours);
    const uint32_t to = sums + group * kSums + line * pitch + 4 * column;
    store_four(to, turned(Float4{sum[i][0], sum[i][1], sum[i][2], sum[i][3]}));
    store_four(to + kWarpColumns / 2 * 4,
               turned(Float4{sum[i][4], sum[i][5], sum[i][6], sum[i][7]}));
  }
  task.sync();
  const Turns turns(task, of.tile_rows, of.tile_columns);
  const Asked fours(task);
  const uint32_t gradient = (task.node().operands - 1u) * turns.turns;
  TREK_ROLLED
  for (uint32_t t = 0; t < turns.turns; ++t) {
    const uint32_t at = sums + (turns.row + t * turns.rows) * pitch + 4 * turns.column;
    Float4 total = load_four(at);
    if (of.k > kBlock) total = total + load_four(at + kSums);
    fours.put(gradient + t, turned(total));
  }
}

// Waits for what is stepped, behind multiply().
TREK_TILE void await_own([[maybe_unused]] const Task& task) {
#ifdef TREK_SM90A
  if (task.node().matrix.has_boxes != 0) {
    tensor::BoxBarriers& barriers = boxes::barriers();
    const uint32_t parity = barriers.parity;
    tensor::barrier_wait(boxes::own_barrier(), parity);
    task.sync();  // all have read it
    if (task.thread() == 0) barriers.parity = parity ^ 1;
    return;
  }
#endif
  wait_for_copies(0);
}

TREK_TILE void multiply_by(const Task& task, int64_t number) {
  const Matrix& of = task.node().matrix;
  switch (static_cast<uint32_t>(of.tile_rows * of.tile_columns) / kOutputs) {
    case 1:
      return multiply<1>(task, number);
    case 2:
      return multiply<2>(task, number);
    case 4:
      return multiply<4>(task, number);
    case 5:
      return multiply<5>(task, number);
    default:
      return multiply<kMostRows>(task, number);
  }
}

}  // namespace made

// Steps a box of w by a gradient that is made here; prepare() as step_all() has it.
template <Opcode kOpcode, class Prepare>
TREK_UNIT void step_by_made(const Task& task, const Rule<float>& with, int64_t number,
                            Prepare prepare) {
  const Matrix& matrix = task.node().matrix;
  made::ask(task, number, false);
  prepare();
  if (!made::ask(task, number, true)) return task.sync();
  made::multiply_by(task, number);
  const MadeBox box(matrix, number);
  const made::Turns turns(task, static_cast<uint32_t>(matrix.tile_rows),
                          static_cast<uint32_t>(matrix.tile_columns));
  const AskedTensors<kOpcode, true> of(task, turns.turns);
  const FourSteps<kOpcode, float> by(with);
  made::await_own(task);
  TREK_ROLLED
  for (uint32_t i = 0; i < turns.turns; ++i) {
    if (!turns.exists(box, i)) continue;
    const int64_t at = turns.place(box, i, 4 * static_cast<uint32_t>(matrix.n));
    StepFour four;
    of.take(at, i, four);
    of.step(by, at, four);
  }
}

// The same of elements [first, first + count), of which there are at most kSummed, by a gradient that is a sum of lines. Four threads
// have a column: of the 32 partials of the reduction order every fourth one.
template <Opcode kOpcode, class Prepare>
TREK_UNIT void step_by_sums(const Task& task, const Rule<float>& with, int64_t first, int64_t count,
                            Prepare prepare) {
  constexpr uint32_t kShared = 4;
  constexpr uint32_t kPartials = semantics::kPartials / kShared;  // of a thread
  constexpr uint32_t kPitch =
      4 * (kSummed + 8);  // so that the lanes of a warp are on different banks
  constexpr uint32_t kRows = Asked::kFirst;
  static_assert(kRows + kPitch * kMostSummed <= kSharedBytes && kShared * kSummed <= kBlockThreads);
  const Matrix& of = task.node().matrix;
  const auto k = static_cast<uint32_t>(of.k);
  const auto columns = static_cast<uint32_t>(count);
  const auto* from = reinterpret_cast<const float*>(task.memory(made_from(task.node(), 0))) + first;
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < k * (kSummed / 4); i += kBlockThreads) {
    const uint32_t row = i / (kSummed / 4);
    const uint32_t column = i % (kSummed / 4) * 4;
    if (column < columns)
      copy_ahead<16>(shared_address(task.shared<std::byte>(kRows)) + row * kPitch + 4 * column,
                     from + row * of.n + column);
  }
  commit_copies();
  prepare();
  wait_for_copies(0);
  task.sync();
  const uint32_t lane = task.thread() % 32;
  const uint32_t column = task.thread() / 32 * 8 + lane % 8;
  const uint32_t part = lane / 8;
  const float* line = task.shared<float>(kRows) + part * (kPitch / 4) + column;
  float partial[kPartials];
  TREK_UNROLLED
  for (uint32_t i = 0; i < kPartials; ++i) partial[i] = line[i * kShared * (kPitch / 4)];
  TREK_ROLLED
  for (uint32_t row = semantics::kPartials; row < k; row += semantics::kPartials) {
    TREK_UNROLLED
    for (uint32_t i = 0; i < kPartials; ++i)
      if (row + kShared * i + part < k)
        partial[i] = semantics::add(partial[i], line[(row + kShared * i) * (kPitch / 4)]);
  }
  TREK_UNROLLED
  for (uint32_t half = kPartials / 2; half > 0; half /= 2) {
    TREK_UNROLLED
    for (uint32_t i = 0; i < half; ++i) partial[i] = semantics::add(partial[i], partial[i + half]);
  }
  float sum = partial[0];
  sum = semantics::add(sum, rows::from_below(sum, 16));
  sum = semantics::add(sum, rows::from_below(sum, 8));
  if (part == 0 && column < columns) step_one<kOpcode>(task, with, first + column, sum);
}

#endif  // __CUDA__

}  // namespace train_detail

}  // namespace trek::device
