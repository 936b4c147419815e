// Matrix products by tensor cores on Hopper: the tensor copy engine fills a ring of slots in shared memory,
// and two warpgroups multiply from there, 64 rows of a part each. Compiled for sm_90a alone.
//
// The ring (matrix_ring_90a.h) runs on from one part of a tile to the next, and to the next tile, so its copies arrive
// while results are stored.
//
// Products of tf32 take operands from shared memory only where k are neighbours. An operand that lies the other
// way is turned around there, by the warpgroups themselves while the products of the step before run.
//
// Code that is made for one product has parts of any width, and transposed ones: a product of which the operands have
// changed sides, and whose results are turned around in registers (matrix_tail.h). There the left operand of tf32, whose
// lines are neighbours, comes to registers: from these tensor cores take it however it lies.
//
// What multiplies is copied into the kernel, not called: ptxas makes products of a warpgroup wait for each
// other (C7510) where it sees them in a function that is called.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_ring_90a.h"

namespace trek::device {

namespace tensor {

// How an operand of tensor cores lies in a slot of the ring.
enum class Lies : uint8_t {
  by_line,
  by_k,
  either,        // of f32: by line, or to be turned around
  to_registers,  // of f32, on the left: by k
};

// Turns boxes of 32 lines by 32 k of f32 around in their place, from rows of lines to rows of k, `kBoxes` of them
// one after the other; by the block. Blocks of 8 by 8 go where the one that takes their place comes from: a warp
// has four of these at a time, a word of each of four rows in eight lanes, so that no two lanes meet in a bank.
template <uint32_t kBoxes>
TREK_TILE void turn_boxes(const Task& task, uint32_t boxes) {
  constexpr uint32_t kBox = 32 * kRowBytes;
  constexpr uint32_t kTurns = 4;  // of a box: blocks that are so many blocks from each other
  constexpr uint32_t kWarps = kBlockThreads / 32;
  static_assert(kBoxes * kTurns % kWarps == 0);
  const uint32_t warp = opaque(task.thread()) / 32;
  const uint32_t lane = opaque(task.thread()) % 32;
  const uint32_t block = lane / 8;  // of k
  const uint32_t line = 8 * (block ^ warp % kTurns) + lane % 8;
  const uint32_t box = boxes + warp / kTurns * kBox;
  const uint32_t from = box + 8 * block * kRowBytes + line % 4 * 4;
  const uint32_t to = box + line * kRowBytes;
#pragma unroll
  for (uint32_t i = 0; i < kBoxes * kTurns / kWarps; ++i) {
    const uint32_t next = i * kWarps / kTurns * kBox;
    uint32_t words[2][4];
#pragma unroll
    for (uint32_t k = 0; k < 8; ++k)
      words[k / 4][k % 4] = load_word(from + (line / 4 * 16 ^ k * 16) + k * kRowBytes + next);
    warp_sync();
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h)
      store_piece(to + ((2 * block + h) * 16 ^ lane % 8 * 16) + next, words[h]);
  }
}

// Whether a node has tiles whose right operand two blocks bring; of a tile that is alone Brought says that it is not.
TREK_TILE bool may_share_columns(const Task& task) {
  return kHasPairs && static_cast<Pairing>(task.node().matrix.pairing) == Pairing::columns;
}
// Waits for a slot to be full, and says whether it is: the other block, which brings a part of it, may never come.
TREK_TILE bool await_slot(const Task& task, uint32_t full, uint32_t parity) {
  if constexpr (kHasPairs)
    if (may_share_columns(task)) return trek_await_pair(full, parity);
  barrier_wait(full, parity);
  return true;
}
// Gives a slot back, to all who bring to it; a thread for its warpgroup.
TREK_TILE void give_back(const Task& task, uint32_t empty, bool is_here) {
  if (!is_here) return;
  barrier_arrive(empty);
  if (!may_share_columns(task)) return;
  if (kept_brought(task).shares_columns) arrive_in_other_block(in_other_block(empty));
}

// Whether the left operand of transposed parts comes to registers: then a lane has lines of line_of_pair().
TREK_TILE bool goes_by_registers(const Task& task) {
  const Node& node = task.node();
  return static_cast<DType>(node.operand(0).dtype) == DType::f32 && node.matrix.b_k != 1;
}

// A step's products of a left operand that lies in boxes of 32 lines by 32 k of f32: each warp brings its 16 lines to
// registers, while the other warpgroup multiplies. Lanes of half a warp read from all banks.
template <uint32_t kCount>
TREK_TILE void multiply_step_of_registers(const Task& task, float (&sum)[kCount], uint32_t left,
                                          uint32_t b) {
  constexpr uint32_t kProducts = kRowBytes / kProductBytes;
  const uint32_t line = line_of_pair(opaque(task.thread()));
  const uint32_t k = opaque(task.thread()) % 4;
  const uint32_t row = left + line / 32 * (32 * kRowBytes) + k * kRowBytes + line % 4 * 4;
  const uint32_t upper = row + (line % 32 / 4 ^ k) * 16;
  const uint32_t lower = row + (line % 32 / 4 ^ k ^ 4) * 16 + 4 * kRowBytes;
  uint32_t a[kProducts][4];
#pragma unroll
  for (uint32_t j = 0; j < kProducts; ++j) {
    load_words(a[j][0], a[j][1], upper + j * 8 * kRowBytes);
    load_words(a[j][2], a[j][3], lower + j * 8 * kRowBytes);
  }
  fence_products();
#pragma unroll
  for (uint32_t j = 0; j < kProducts; ++j) multiply_registers(sum, a[j], b + j * kNextDepth<true>);
  commit_products();
  // Were they under way where the next step begins, or while registers are filled, ptxas would have too few of these as soon
  // as a program has a few such products, and have all of them wait for each other (C7511, C7512).
  wait_for_products<0>();
}

// multiply_group() for any width: what is beyond 256 columns are two products.
template <Factors kFactors, bool kAByLine, bool kBByLine, uint32_t kCount>
TREK_TILE void multiply_columns(float (&sum)[kCount], uint32_t a, uint32_t b) {
  if constexpr (kCount <= 128) {
    multiply_group<kFactors, kAByLine, kBByLine>(sum, a, b, 1);
  } else {
    constexpr uint32_t kFirst = 96;
    constexpr uint32_t kFirstBytes = 2 * kFirst * kRowBytes;
    multiply_group<kFactors, kAByLine, kBByLine>(reinterpret_cast<float(&)[kFirst]>(sum[0]), a, b,
                                                 1);
    multiply_group<kFactors, kAByLine, kBByLine>(
        reinterpret_cast<float(&)[kCount - kFirst]>(sum[kFirst]), a, b + (kFirstBytes >> 4), 1);
  }
}

// All of k for the part that the ring has next. A warpgroup keeps one number during that, `step`, of the
// steps of all parts so far: in the ring, step n is in slot n mod slots. A slot is given back once the next one's products
// have begun, or its own are done.
template <uint32_t kColumns, Factors kFactors, Lies kLeft, Lies kRight>
TREK_TILE void multiply_part_90a(const Task& task, uint32_t& step, float (&sum)[kColumns / 2]) {
  constexpr uint32_t kGroupBytes = kPartRows / 2 * kRowBytes;
  constexpr bool kAByLine = kLeft != Lies::by_k;  // when it is multiplied
  constexpr bool kBByLine = kRight != Lies::by_k;
  constexpr bool kEndsSteps = kLeft == Lies::to_registers;  // products are done where a step ends
  constexpr uint32_t kLines = Ring90::lines(kColumns, kBByLine, row_elements(kBytesOf<kFactors>));
  constexpr uint32_t kSlots = Ring90::slots(kLines);
#pragma unroll
  for (uint32_t i = 0; i < kColumns / 2; ++i) sum[i] = 0;
  const uint32_t end = step + kept_brought(task).steps;
  bool is_first = true;
  bool is_here = true;
  TREK_ROLLED
  do {
    const uint32_t shared = memory_of(task);
    is_here = await_slot(task, Ring90::full(shared, step % kSlots), step / kSlots % 2);
    const uint32_t left = Ring90::begin(shared) + step % kSlots * Ring90::slot_bytes(kLines);
    if constexpr (kRight == Lies::either) {
      const Brought& brought = kept_brought(task);
      if constexpr (kLeft == Lies::either)
        if (!brought.a_by_line) turn_boxes<kPartRows / 32>(task, left);
      if (!brought.b_by_line) turn_boxes<kColumns / 32>(task, left + Ring90::kLeft);
      before_products();
      task.sync();
    }
    const uint32_t group = opaque(task.thread()) / 128;
    const uint32_t a = operand_at<kAByLine>(left + group * kGroupBytes, 64 * kRowBytes);
    const uint32_t b = operand_at<kBByLine>(left + Ring90::kLeft, 64 * kRowBytes);
    if constexpr (kLeft == Lies::to_registers) {
      multiply_step_of_registers(task, sum, left, b);
    } else {
      fence_products();
#pragma unroll
      for (uint32_t j = 0; j < kRowBytes / kProductBytes; ++j)
        multiply_columns<kFactors, kAByLine, kBByLine>(sum, a + j * kNextDepth<kAByLine>,
                                                       b + j * kNextDepth<kBByLine>);
      commit_products();
      wait_for_products<1>();  // those of the step before are done
    }
    const uint32_t done = kEndsSteps ? step : step - 1;
    if ((kEndsSteps || !is_first) && opaque(task.thread()) % 128 == 0)
      give_back(task, Ring90::empty(shared, done % kSlots), is_here);
    is_first = false;
  } while (++step != end);
  take_products(sum);
  if (!kEndsSteps && opaque(task.thread()) % 128 == 0)
    give_back(task, Ring90::empty(memory_of(task), (step - 1) % kSlots), is_here);
}

// Of f32 whose left operand comes to registers.
template <uint32_t kColumns>
TREK_TILE void multiply_from_registers(const Task& task, bool b_by_line, uint32_t& step,
                                       float (&sum)[kColumns / 2]) {
  if constexpr (kHasPairs && kColumns % 64 == 0) {
    if (b_by_line)
      multiply_part_90a<kColumns, Factors::tf32, Lies::to_registers, Lies::by_line>(task, step,
                                                                                    sum);
    else
      multiply_part_90a<kColumns, Factors::tf32, Lies::to_registers, Lies::either>(task, step, sum);
  }
}

// Parts of 32 columns are for a right operand by line alone: of lines that are neighbours the engine brings 64 at a time. The
// left one may lie by k, but not of f32 (plan/product_tensor.cpp), which has the widths that all devices have.
template <uint32_t kColumns, bool kTransposed>
TREK_TILE void multiply_any_90a(const Task& task, uint32_t& step, float (&sum)[kColumns / 2]) {
  constexpr bool kOfF32 = kColumns == 32 || (kColumns % 64 == 0 && kColumns <= 256);
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const bool a_by_line = (kTransposed ? of.b_k : of.a_k) == 1;
  const bool b_by_line = kColumns == 32 || (kTransposed ? of.a_k : of.b_k) == 1;
  const auto of_16_bits = [&]<Factors kFactors>() TREK_TILE_LAMBDA {
    if (a_by_line && b_by_line)
      multiply_part_90a<kColumns, kFactors, Lies::by_line, Lies::by_line>(task, step, sum);
    else if (b_by_line)
      multiply_part_90a<kColumns, kFactors, Lies::by_k, Lies::by_line>(task, step, sum);
    else if constexpr (kColumns == 32)
      __builtin_unreachable();
    else if (a_by_line)
      multiply_part_90a<kColumns, kFactors, Lies::by_line, Lies::by_k>(task, step, sum);
    else
      multiply_part_90a<kColumns, kFactors, Lies::by_k, Lies::by_k>(task, step, sum);
  };
  const auto type = static_cast<DType>(node.operand(0).dtype);
  if (type == DType::bf16) {
    of_16_bits.template operator()<Factors::bf16>();
  } else if (type == DType::f16) {
    of_16_bits.template operator()<Factors::f16>();
  } else if constexpr (kOfF32) {
    if (kColumns == 32 || (a_by_line && b_by_line))
      multiply_part_90a<kColumns, Factors::tf32, Lies::by_line, Lies::by_line>(task, step, sum);
    else if (kTransposed && goes_by_registers(task))
      multiply_from_registers<kColumns>(task, b_by_line, step, sum);
    else if constexpr (kColumns != 32)
      multiply_part_90a<kColumns, Factors::tf32, Lies::either, Lies::either>(task, step, sum);
  } else {
    __builtin_unreachable();
  }
}

// Exchanges sums with the block that has the other half of a tile's part: `sum` are those of this block's half of k for all
// columns, `given` those of all k for the columns that it gives, a quarter of the part's for a thread. Each thread sends to
// the one of its number. `step` is the one behind the part's last.
template <uint32_t kColumns>
TREK_TILE void exchange_sums(const Task& task, const Brought& brought, uint32_t step,
                             const float (&sum)[kColumns / 2], float (&given)[kColumns / 4]) {
  constexpr uint32_t kPieces = kColumns / 16;  // of four sums
  constexpr uint32_t kPieceBytes = kBlockThreads * 16;
  constexpr uint32_t kOfSlot = kPieces / slots_for_sums(kColumns);
  static_assert(kOfSlot * kPieceBytes <= Ring90::slot_bytes(kColumns));
  const uint32_t slot_bytes =
      Ring90::slot_bytes(Ring90::lines(kColumns, brought.b_by_line, brought.right_lines));
  const uint32_t shared = memory_of(task);
  const uint32_t free = in_pair(shared, offsetof(Pair, free));
  const uint32_t sent = in_pair(shared, offsetof(Pair, sent));
  const Pair& pair = *task.shared<const Pair>(kPairAt);
  const uint32_t parity = pair.exchanges % 2;
  const bool is_upper = brought.half != 0;
  const auto place_of = [&](uint32_t first, uint32_t piece) TREK_TILE_LAMBDA {
    const uint32_t behind = first + piece / kOfSlot;
    const uint32_t slot = behind < brought.slots ? behind : behind - brought.slots;
    return Ring90::begin(shared) + slot * slot_bytes + piece % kOfSlot * kPieceBytes +
           opaque(task.thread()) * 16;
  };
  if (task.thread() == 0) {
    barrier_expect(free, kWordBytes);
    barrier_expect(sent, kPieces * kPieceBytes);
  }
  const bool may_send = trek_await_pair(free, parity) && other_has_passed(free, parity);
  const uint32_t free_slot = load_word(in_pair(shared, offsetof(Pair, free_slot)));
  const uint32_t to = in_other_block(sent);
#pragma unroll
  for (uint32_t i = 0; i < kPieces; ++i) {
    float piece[4];
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) {
      const float lower = sum[4 * i + j];
      const float upper = sum[kColumns / 4 + 4 * i + j];
      piece[j] = is_upper ? lower : upper;
      given[4 * i + j] = is_upper ? upper : lower;
    }
    if (may_send) send_piece(in_other_block(place_of(free_slot, i)), to, piece);
  }
  trek_await_pair(sent, parity);
#pragma unroll
  for (uint32_t i = 0; i < kPieces; ++i) {
    uint32_t piece[4];
    load_piece(piece, place_of(step % brought.slots, i));
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) given[4 * i + j] += semantics::from_bits<float>(piece[j]);
  }
}

// Where a thread has the first four of its sums of a tile, of the line of run `run`; the next four are kBegunPieces on.
inline constexpr uint32_t kBegunPieces = kBlockThreads * 16;
TREK_TILE std::byte* sums_of_run(const Task& task, const Operand& lines, uint32_t run,
                                 uint32_t columns) {
  const auto bytes = uint64_t{run} * (kPartRows * columns * 4);
  return task.memory(lines) + bytes + opaque(task.thread()) * 16;
}
// Puts the sums of a tile that a run begins to its line, each thread its own.
template <uint32_t kColumns>
TREK_TILE void put_begun(const Task& task, uint32_t run, const float (&sum)[kColumns / 2]) {
  std::byte* to = sums_of_run(task, task.node().result(0), run, kColumns);
#pragma unroll
  for (uint32_t i = 0; i < kColumns / 2; i += 4) {
    uint32_t piece[4];
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) piece[j] = semantics::to_bits(sum[i + j]);
    store_piece_at(to + i / 4 * kBegunPieces, piece);
  }
}
// Adds what runs have begun of a tile, once it is there. Where it will not be, since the launch ends, it does not matter
// what the sums are.
template <uint32_t kColumns>
TREK_TILE void add_begun(const Task& task, const Brought& brought, float (&sum)[kColumns / 2]) {
  if (!adds_begun(brought)) return;
  await_come();
  const Node& node = task.node();
  TREK_ROLLED
  for (uint32_t run = brought.first_run; run < brought.end_run; run += node.matrix.runs.together) {
    const std::byte* from = sums_of_run(task, node.operand(node.matrix.runs.begun), run, kColumns);
#pragma unroll
    for (uint32_t i = 0; i < kColumns / 2; i += 4) {
      float piece[4];
      asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(piece[0]), "=f"(piece[1]), "=f"(piece[2]), "=f"(piece[3])
                   : "l"(from + i / 4 * kBegunPieces)
                   : "memory");
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) sum[i + j] += piece[j];
    }
  }
}

// Gives the sums of a warp for kColumns columns from `column` on.
template <uint32_t kColumns, bool kTransposed>
TREK_TILE void give_part_90a(const Task& task, const Brought& parts, uint32_t row, uint32_t column,
                             float (&sum)[kColumns / 2]) {
  const uint32_t my_row = opaque(task.thread()) / 32 * 16;
  const bool in_pairs = kTransposed && goes_by_registers(task);
  if (!parts.ends) {
    if constexpr (kHasPairs && kColumns % 32 == 0)
      if (in_pairs)
        return give_pairs(task, {parts.batch, column, row, parts.end_column, parts.end_row}, sum);
    if (kTransposed)
      return give_transposed(
          task, {parts.batch, column, row + my_row, parts.end_column, parts.end_row}, sum);
    return give_outputs(task, {parts.batch, row + my_row, column, parts.end_row, parts.end_column},
                        sum);
  }
  task.sync();  // the other warpgroup has read the ring, too
  const uint32_t rows = parts.end_row - row < kPartRows ? parts.end_row - row : kPartRows;
  const uint32_t columns =
      parts.end_column - column < kColumns ? parts.end_column - column : kColumns;
  if (in_pairs)
    stage_outputs<true>(task, 0, 0, rows, columns, kTransposed, sum);
  else
    stage_outputs(task, my_row, 0, rows, columns, kTransposed, sum);
  task.sync();
  if (kTransposed)
    deliver_staged(task, parts.batch, column, row, columns, rows);
  else
    deliver_staged(task, parts.batch, row, column, rows, columns);
  say_given();
}

template <uint32_t kColumns, bool kTransposed>
TREK_TILE void multiply_parts_90a(const Task& task) {
  // All that is kept: what else there is to know is worked out anew behind the products of each part.
  uint32_t step = kept_bringing(task).asked.first_step;
  for (;;) {
    float sum[kColumns / 2];
    multiply_any_90a<kColumns, kTransposed>(task, step, sum);
    const Brought& parts = kept_brought(task);
    const uint32_t part = (step - kept_bringing(task).asked.first_step) / parts.steps - 1;
    const uint32_t row = parts.first_row + part / parts.across * kPartRows;
    const uint32_t column = parts.first_column + part % parts.across * kColumns;
    if constexpr (kHasPairs && kColumns >= 64 && kColumns % 32 == 0)
      if (static_cast<Pairing>(task.node().matrix.pairing) == Pairing::depth) {
        float given[kColumns / 4];
        exchange_sums<kColumns>(task, parts, step, sum, given);
        task.sync();
        if (task.thread() == 0) ++task.shared<Pair>(kPairAt)->exchanges;
        if (opaque(task.thread()) % 128 == 0)
          for (uint32_t i = step; i < step + slots_for_sums(kColumns); ++i) {
            // The phase in which nothing was brought.
            barrier_wait(Ring90::full(memory_of(task), i % parts.slots), i / parts.slots % 2);
            barrier_arrive(Ring90::empty(memory_of(task), i % parts.slots));
          }
        give_part_90a<kColumns / 2, kTransposed>(task, parts, row,
                                                 column + parts.half * (kColumns / 2), given);
        break;
      }
    if constexpr (kHasPairs) {
      if (part_of_runs(task) == OfRuns::begun) {
        put_begun<kColumns>(task, parts.first_run, sum);
        break;
      }
      if (part_of_runs(task) == OfRuns::ended) add_begun<kColumns>(task, parts, sum);
    }
    const bool is_last = row + kPartRows >= parts.end_row && column + kColumns >= parts.end_column;
    give_part_90a<kColumns, kTransposed>(task, parts, row, column, sum);
    if (is_last) break;
  }
}

}  // namespace tensor

// The tile that another warp has brought (tensor::bring_tile()), of a node whose product is `tensor` and that
// has tensor maps; of the widths that all devices have code for.
TREK_TILE void multiply_tile_tensor_90a(const Task& task) {
  switch (task.node().matrix.part_columns) {
    case 256:
      return tensor::multiply_parts_90a<256, false>(task);
    case 192:
      return tensor::multiply_parts_90a<192, false>(task);
    case 128:
      return tensor::multiply_parts_90a<128, false>(task);
    case 64:
      return tensor::multiply_parts_90a<64, false>(task);
    default:
      return tensor::multiply_parts_90a<32, false>(task);
  }
}

}  // namespace trek::device

#endif  // TREK_SM90A
