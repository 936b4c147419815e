// What a thin product does that is several with one left operand (emulator/plan/group_products.h).
//
// In shared memory the columns of all right operands stand side by side, [product][column of the tile], and are
// multiplied as if they were of one. Then a thread has an output of one of the products and takes its sum through the
// product's own tail; these are beside each other, each in warps of its own. Last a thread has an output of the tile,
// and takes it through the program whose main values they are.
//
// An output has kGroupSlots words of shared memory: the main values, what the program reads beside them, and what its
// steps give. All is worked out for blocks of kBlockThreads outputs, whatever the number of threads.
#pragma once

#include "emulator/device/matrix_thin_tags.h"

namespace trek::device::thin {

TREK_TILE uint32_t group_slot_at(uint32_t slot, uint32_t output) {
  return shared_at::kSlots + 4 * (slot * kBlockThreads + output);
}
TREK_TILE float read_slot(const Task& task, uint32_t slot, uint32_t output) {
  return as_float(*task.shared<Aliased<uint32_t>>(group_slot_at(slot, output)));
}
TREK_TILE void write_slot(const Task& task, uint32_t slot, uint32_t output, float value) {
  *task.shared<Aliased<uint32_t>>(group_slot_at(slot, output)) = bits_of(value);
}

// The first column of another right operand.
TREK_TILE const std::byte* right_of(const Work& work, uint32_t product) {
  const Operand& right = work.node.operand(work.group().others + product - 1);
  return work.memory(right) +
         work.column * work.matrix().b_column * size_of(static_cast<DType>(right.dtype));
}

// Output `i` of a tile, counted by rows of all its columns; its column may be behind the last.
struct Member {
  Output output;
  uint32_t row;
  uint32_t column;  // of the tile
  bool exists;
};
TREK_TILE Member member_of(const Work& work, uint32_t i) {
  const auto columns = static_cast<uint32_t>(work.matrix().tile_columns);
  const uint32_t row = work.cut().rows == 1 ? 0 : i / columns;
  const uint32_t column = i - row * columns;
  return {{work.first + row * work.matrix().n + column, work.column + column},
          row,
          column,
          row < work.cut().rows && column < work.columns};
}
// Number `i` of kBlockThreads is output i % 2^place_bits of product i >> place_bits.
TREK_TILE uint32_t product_of(const Work& work, uint32_t i) { return i >> work.group().place_bits; }
TREK_TILE uint32_t tile_place(const Work& work, uint32_t i) {
  return i & ((1U << work.group().place_bits) - 1);
}

// Calls act(product) for the one that a thread has: where code is made for a node it is known in each call.
template <class Act>
TREK_TILE void with_product([[maybe_unused]] const Work& work, uint32_t product, Act act) {
#ifdef TREK_SPECIALISED
  each_row<kMaxProducts>(work.group().products, [&](uint32_t p) TREK_TILE_LAMBDA {
    if (p == product) act(p);
  });
#else
  act(product);
#endif
}

// load_beside() of an operand that may be a slice.
TREK_TILE void load_slice(const Task& task, const Work& work, const Operand& from, int64_t place,
                          uint32_t to) {
  load_beside(task, from, work.memory_of_slice(from), place, to);
}
// Asks for all that tails and program have beside the sums. Copies are of no group yet.
TREK_TILE void load_group(const Task& task, const Work& work) {
  const ThinGroup& group = work.group();
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < kBlockThreads; i += task.threads()) {
    const uint32_t product = product_of(work, i);
    const Member member = member_of(work, tile_place(work, i));
    if (product >= group.products || !member.exists) continue;
    with_product(work, product, [&](uint32_t p) TREK_TILE_LAMBDA {
      each_row<kGroupTail>(group.tail_steps[p], [&](uint32_t s) TREK_TILE_LAMBDA {
        const TailStep& step = group.tail[p][s];
        if (is_operand(step))
          load_slice(task, work, work.node.operand(step.index), beside_of(step, member.output),
                     group_slot_at(group_slot::kBeside + s, i));
      });
    });
    if (product != 0) continue;
    each_row<kGroupLoads>(group.loads, [&](uint32_t l) TREK_TILE_LAMBDA {
      const Load& load = *work.node.load(group.first_load + l);
      const Operand& from = work.node.operand(load.operand);
      const int64_t place =
          from.map.kind == Map::same ? member.output.element : member.output.column;
      load_slice(task, work, from, place, group_slot_at(load.slot, i));
    });
  }
}

// Number i's sum through the tail of its product, of which number `kProduct` on are looked at: where code is made for
// a node, each product's tail is code of its own.
template <uint32_t kStep = 0>
TREK_TILE float group_tail(const Task& task, const Work& work, uint32_t product, uint32_t i,
                           float value) {
  const ThinGroup& group = work.group();
  if constexpr (kSpecialised) {
    if (kStep >= group.tail_steps[product]) return value;
    const TailStep& step = group.tail[product][kStep];
    value = apply_tail_step(step, value, read_slot(task, group_slot::kBeside + kStep, i));
    if constexpr (kStep + 1 < kGroupTail)
      return group_tail<kStep + 1>(task, work, product, i, value);
  } else {
    TREK_ROLLED
    for (uint32_t s = 0; s < group.tail_steps[product]; ++s)
      value = apply_tail_step(group.tail[product][s], value,
                              read_slot(task, group_slot::kBeside + s, i));
  }
  return value;
}
template <uint32_t kProduct = 0>
TREK_TILE float group_main(const Task& task, const Work& work, uint32_t product, uint32_t i,
                           float value) {
#ifdef TREK_SPECIALISED
  if (product == kProduct) return group_tail(task, work, kProduct, i, value);
  if constexpr (kProduct + 1 < kMaxProducts)
    if (kProduct + 1U < work.group().products)
      return group_main<kProduct + 1>(task, work, product, i, value);
  return value;
#else
  return group_tail(task, work, product, i, value);
#endif
}

TREK_TILE float group_input(const Task& task, const Work& work, Source source, uint32_t output) {
  if (source.kind == Source::slot) return read_slot(task, source.index, output);
  if (source.kind == Source::scalar)
    return as_float(static_cast<uint64_t>(work.node.scalar(source.index).value));
  return 0;
}
// What a step of the program gives.
TREK_TILE float group_result(Opcode opcode, DType to, float x, float y, float z) {
  float value = x;
  switch (opcode) {
    case Opcode::Copy:
    case Opcode::Cast:
      break;
    case Opcode::Add:
      value = semantics::add(x, y);
      break;
    case Opcode::Mul:
      value = semantics::mul(x, y);
      break;
    case Opcode::Fma:
      value = semantics::fma(x, y, z);
      break;
    default:
      value = as_float(apply_real32(opcode, bits_of(x), bits_of(y), bits_of(z), 0, 0));
      break;
  }
  return rounded(to, value);
}
TREK_TILE void group_step(const Task& task, const Work& work, uint32_t s, uint32_t output) {
  const Step& step = *work.node.step(work.group().first_step + s);
  const float x = group_input(task, work, step.inputs[0], output);
  const float y = group_input(task, work, step.inputs[1], output);
  const float z = group_input(task, work, step.inputs[2], output);
  write_slot(task, step.slot, output,
             group_result(static_cast<Opcode>(step.opcode), static_cast<DType>(step.to), x, y, z));
}
template <uint32_t kStep = 0>
TREK_TILE void group_steps(const Task& task, const Work& work, uint32_t output) {
#ifdef TREK_SPECIALISED
  if (kStep >= work.group().steps) return;
  group_step(task, work, kStep, output);
  if constexpr (kStep + 1 < kGroupSteps) group_steps<kStep + 1>(task, work, output);
#else
  TREK_ROLLED
  for (uint32_t s = 0; s < work.group().steps; ++s) group_step(task, work, s, output);
#endif
}

// Adds the blocks of all outputs, and gives the results.
TREK_TILE void finish_group(const Task& task, const Work& work) {
  const ThinGroup& group = work.group();
  const Thin& cut = work.cut();
  const float* sums = task.shared<float>(cut.sums);
  const auto columns = static_cast<uint32_t>(work.matrix().tile_columns);
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < kBlockThreads; i += task.threads()) {
    const uint32_t product = product_of(work, i);
    const Member member = member_of(work, tile_place(work, i));
    if (product >= group.products || !member.exists) continue;
    const uint32_t at = member.row * cut.part + product * columns + member.column;
    const float total = sum_of_blocks(sums + at, cut.blocks, cut.rows * cut.part);
    write_slot(task, group_slot::kMains + product, tile_place(work, i),
               group_main(task, work, product, i, total));
  }
  task.sync();
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < 1U << group.place_bits; i += task.threads()) {
    const Member member = member_of(work, i);
    if (!member.exists) continue;
    group_steps(task, work, i);
    if (kSpecialised && gives_tagged(work.node))
      give_word_of_group(work, member.output.element,
                         read_slot(task, group.gives[work.node.areas().result_index], i));
    each_row<kGroupResults>(work.node.results, [&](uint32_t r) TREK_TILE_LAMBDA {
      const Operand& to = work.node.result(r);
      store32(work.memory_of_slice(to), static_cast<DType>(to.dtype), member.output.element,
              bits_of(read_slot(task, group.gives[r], i)));
    });
  }
}

}  // namespace trek::device::thin
