// Quick nodes: pointwise ones on floats whose scalars are constants or 32-bit numbers in memory, moves between places
// that are known (quick_move.h), and reductions of short rows (quick_rows.h). They are what most tasks of a network are
// beside products, and cannot trap.
//
// This path has no context and no sync before the work, and where all steps are simple no call either: what a call
// saves for its caller goes through the little first-level cache that is left beside the shared memory, and takes
// a microsecond; so would the general way of program.h, which does the same and more.
#pragma once

#include "emulator/device/copies.h"
#include "emulator/device/program.h"
#include "emulator/device/quick_move.h"

namespace trek::device {

namespace quick_detail {

using program_detail::Four;

// A row of 16 bytes of a descriptor, read at once: loads that wait for one another are most of a quick task.
template <typename T>
TREK_UNIT T row_of(const T* at) {
  static_assert(sizeof(T) == sizeof(Words));
  return __builtin_bit_cast(T, *reinterpret_cast<const Words*>(at));
}

// What a quick program reads of its node, and the arena: worked out once for a task.
struct Surroundings {
  const Node* node;
  const Operand* operands;
  const Scalar* scalars;
  std::byte* arena;
};
TREK_UNIT Surroundings surroundings(const Node& node, std::byte* arena) {
  return {&node, &node.operand(0), &node.scalar(0), arena};
}

// A task may be executed several times, one after the other: `turns(turn)` says whether it is for the turn of that number,
// for which all threads call it, and waits until it may be. What is the same in every turn is read before.
struct OneTurn {
  TREK_ON_DEVICE bool operator()(uint32_t turn) const { return turn == 0; }
};

// Four elements from `element` on, or that element four times.
TREK_UNIT Four load(const Surroundings& around, const Operand& from, int64_t element, bool four) {
  const auto type = static_cast<DType>(from.dtype);
  const std::byte* at =
      around.arena + from.offset + place_quick(*around.node, from.map, element) * size_of(type);
  if (four && from.map.kind != Map::one) return program_detail::load_in_line(at, type);
  const uint32_t one = program_detail::load_one(at, type);
  return {{one, one, one, one}};
}

TREK_UNIT void store(std::byte* at, DType type, const Four& values, bool four) {
  if (four)
    program_detail::store_four(at, type, values);
  else if (type == DType::bf16)
    *reinterpret_cast<Aliased<uint16_t>*>(at) = semantics::narrow<BF16>(as_float(values.e[0])).bits;
  else
    *reinterpret_cast<Aliased<uint32_t>*>(at) = values.e[0];
}

// The same to a slot of this thread's, where it is once copies have been waited for. What is copied as it lies takes no
// register, so all that a program reads is on its way at once.
TREK_UNIT void bring(const Task& task, const Surroundings& around, const Operand& from, Load next,
                     int64_t element, bool four) {
  const auto type = static_cast<DType>(from.dtype);
  const uint32_t slot = program_detail::slot_at(task, next.slot);
  if (size_of(type) != 4) return program_detail::put(task, slot, load(around, from, element, four));
  const std::byte* at =
      around.arena + from.offset + place_quick(*around.node, from.map, element) * 4;
  auto* to = task.shared<uint32_t>(slot);
  if (four && from.map.kind != Map::one) return copy_near<16>(to, at);
  for (uint32_t e = 0; e < (four ? 4 : 1); ++e) copy_near<4>(to + e, at);
}

// A program's main value is in a slot behind the others.
TREK_UNIT uint32_t main_slot(const Task& task) {
  return program_detail::slot_at(task, kNarrowSlots);
}

TREK_UNIT Four value(const Task& task, const Surroundings& around, Source source) {
  if (source.kind == Source::slot)
    return program_detail::get(task, {program_detail::slot_at(task, source.index), false});
  if (source.kind == Source::main) return program_detail::get(task, {main_slot(task), false});
  const Scalar scalar = row_of(around.scalars + source.index);
  const uint32_t one =
      scalar.kind == Scalar::constant
          ? static_cast<uint32_t>(scalar.value)
          : *reinterpret_cast<const Aliased<uint32_t>*>(around.arena + scalar.value);
  return {{one, one, one, one}};
}

// Of four elements, or of one that is there four times; of one where steps need not be simple.
template <bool kCalls>
TREK_UNIT Four step(const Task& task, const Surroundings& around, const Step& of) {
  const auto opcode = static_cast<Opcode>(of.opcode);
  const auto from = static_cast<DType>(of.from);
  const auto to = static_cast<DType>(of.to);
  const Four x = value(task, around, of.inputs[0]);
  const Four y = of.inputs[1].kind == Source::none ? x : value(task, around, of.inputs[1]);
  const Four z = of.inputs[2].kind == Source::none ? x : value(task, around, of.inputs[2]);
  if constexpr (kCalls) {
    if (!is_simple(opcode, from, to)) {
      const auto number = [&](Source source) {
        return source.kind == Source::none ? 0 : value(task, around, source).e[0];
      };
      const auto bits = static_cast<uint32_t>(apply_real32(
          opcode, x.e[0], y.e[0], z.e[0], number(of.numbers[0]), number(of.numbers[1])));
      const uint32_t one = to == DType::boolean ? bits : bits_of(rounded(to, as_float(bits)));
      return {{one, one, one, one}};
    }
  }
  return program_detail::apply_simple(opcode, from, to, x, y, z);
}

// What the first steps of a program make of its first loads, of four elements: all loads are on their way at once.
TREK_UNIT Four sum_in_line(const Node& node, const Program& program, const std::byte* arena,
                           int64_t element) {
  Words parts[kNarrowSlots] = {};
  for (uint32_t i = 0; i < kNarrowSlots; ++i)
    if (i < program.summed)
      parts[i] = *reinterpret_cast<const Words*>(
          arena + node.operand(node.load(program.first_load + i)->operand).offset + element * 4);
  Words sum = parts[0];
  for (uint32_t i = 1; i < kNarrowSlots; ++i)
    for (uint32_t e = 0; e < 4 && i < program.summed; ++e)
      sum.e[e] = bits_of(semantics::add(as_float(sum.e[e]), as_float(parts[i].e[e])));
  return {{sum.e[0], sum.e[1], sum.e[2], sum.e[3]}};
}

// What a step of a direct program has for an input.
struct DirectInput {
  enum From : uint32_t { first_load, second_load, constant };
  uint32_t from;
  uint32_t bits;  // of a constant
};
TREK_UNIT DirectInput direct_input(const Surroundings& around, const Load* loads, Source source) {
  if (source.kind == Source::none) return {DirectInput::first_load, 0};
  if (source.kind == Source::slot)
    return {source.index == loads[0].slot ? DirectInput::first_load : DirectInput::second_load, 0};
  return {DirectInput::constant,
          static_cast<uint32_t>(row_of(around.scalars + source.index).value)};
}

// each_element() of a direct program: everything but its loads, its step and its stores is done before the first turn, and
// nothing goes through shared memory.
template <class Turns, class Give>
TREK_UNIT void each_directly(const Task& task, const Node& node, const Program& program,
                             int64_t first, int64_t count, std::byte* arena, Turns turns,
                             Give give) {
  const Surroundings around = surroundings(node, arena);
  const Load* loads = node.load(program.first_load);
  const Step step = row_of(node.step(program.first_step));
  const auto at_load = [&](uint32_t l) {
    return arena + around.operands[loads[l].operand].offset + 4 * first;
  };
  const std::byte* left = at_load(0);
  const std::byte* right = program.loads == 2 ? at_load(1) : left;
  const DirectInput x = direct_input(around, loads, step.inputs[0]);
  const DirectInput y = direct_input(around, loads, step.inputs[1]);
  const DirectInput z = direct_input(around, loads, step.inputs[2]);
  const auto end = static_cast<uint32_t>(count);
  const auto make = [&](uint32_t at, bool four) TREK_TILE_LAMBDA {
    const auto of = [&](const std::byte* from) TREK_TILE_LAMBDA {
      if (four) return program_detail::load_in_line(from + 4 * at, DType::f32);
      const uint32_t one = program_detail::load_one(from + 4 * at, DType::f32);
      return Four{{one, one, one, one}};
    };
    const Four a = of(left);
    const Four b = program.loads == 2 ? of(right) : a;
    const auto input = [&](DirectInput which) TREK_TILE_LAMBDA {
      Four value = a;
      for (uint32_t e = 0; e < 4; ++e)
        value.e[e] = which.from == DirectInput::first_load    ? a.e[e]
                     : which.from == DirectInput::second_load ? b.e[e]
                                                              : which.bits;
      return value;
    };
    give(first + at,
         program_detail::apply_simple(static_cast<Opcode>(step.opcode),
                                      static_cast<DType>(step.from), static_cast<DType>(step.to),
                                      input(x), input(y), input(z)),
         four);
  };
  for (uint32_t turn = 0; turns(turn); ++turn) {
    TREK_ROLLED
    for (uint32_t p = 4 * task.thread(); p < end; p += 4 * task.threads()) {
      const bool four = p + 4 <= end;
      TREK_ROLLED
      for (uint32_t q = p; q < (four ? p + 1 : end); ++q) make(q, four);
    }
  }
}

// Calls give(element, values, four) for the elements [first, first + count) of the node's index space with what a program
// makes of them: of four elements from `element` on, or of one that is there four times. Where steps are called, or
// operands do not lie in line, a thread takes one element after the other.
template <bool kCalls, class Turns, class Give>
TREK_UNIT void each_element(const Task& task, const Node& node, const Program& of_node,
                            int64_t first, int64_t count, std::byte* arena, Turns turns,
                            Give give) {
  using program_detail::put;
  using program_detail::slot_at;
  const Program program = row_of(&of_node);
  const Surroundings around = surroundings(node, arena);
  const Load* loads = node.load(program.first_load);
  const Step* steps = node.step(program.first_step);
  const auto end = static_cast<uint32_t>(count);  // of a tile: less than 2^32
  const bool aligned = !kCalls && program.flat != 0 && (first & 3) == 0;
  const uint32_t each = aligned ? 4 : 1;
  const auto operand_of_load = [&](uint32_t l) -> const Operand& {
    return around.operands[loads[l].operand];
  };
  const auto step_of = [&](uint32_t s) { return program.steps > s ? row_of(steps + s) : Step{}; };
  // Read ahead; but what is kept across calls goes through memory.
  const bool kept = !kCalls && program.loads > 0;
  const Load first_load = kept ? loads[0] : Load{};
  const Operand first_operand = kept ? operand_of_load(0) : Operand{};
  const Step first_step = kCalls ? Step{} : step_of(0);
  const auto make = [&](int64_t element, bool four) TREK_TILE_LAMBDA {
    const uint32_t summed = four ? program.summed : 0;
    const bool begins = kept && summed == 0;
    if (begins) bring(task, around, first_operand, first_load, element, four);
    TREK_ROLLED
    for (uint32_t l = begins ? 1 : summed; l < program.loads; ++l)
      bring(task, around, operand_of_load(l), loads[l], element, four);
    commit_copies();
    // The last step gives the result, but where there is none.
    uint32_t s = 1;
    Step last = kCalls ? step_of(0) : first_step;
    if (summed != 0) {
      const Four sum = sum_in_line(node, program, arena, element);
      if (summed > program.steps) return give(element, sum, four);  // there is nothing else
      put(task, slot_at(task, steps[summed - 2].slot), sum);
      last = row_of(steps + (summed - 1));
      s = summed;
    }
    wait_for_copies(0);
    TREK_ROLLED
    for (; s < program.steps; ++s) {
      const Step next = row_of(steps + s);
      put(task, slot_at(task, last.slot), step<kCalls>(task, around, last));
      last = next;
    }
    give(element,
         program.steps > 0 ? step<kCalls>(task, around, last) : value(task, around, program.result),
         four);
  };
  for (uint32_t turn = 0; turns(turn); ++turn)
    for (uint32_t p = each * task.thread(); p < end; p += each * task.threads()) {
      const bool four = aligned && p + 4 <= end;
      for (uint32_t q = p; q < (four ? p + 1 : p + each) && q < end; ++q) make(first + q, four);
    }
}

}  // namespace quick_detail

// The elements [first, first + count) of a node that is quick. A sync before others read them is the caller's.
template <bool kCalls, class Turns>
TREK_UNIT void run_quick(const Block& block, const Node& node, int64_t first, int64_t count,
                         std::byte* arena, Turns turns) {
  using namespace quick_detail;  // NOLINT(google-build-using-namespace)
  const Operand to = node.result(0);
  const auto type = static_cast<DType>(to.dtype);
  std::byte* result = arena + to.offset;
  const auto give = [&](int64_t element, const Four& values, bool four) {
    store(result + element * size_of(type), type, values, four);
  };
  const Program& program = node.deliver[0];
  if constexpr (!kCalls)
    if (program.direct != 0 && program.flat != 0 && (first & 3) == 0)
      return each_directly(Task(block), node, program, first, count, arena, turns, give);
  each_element<kCalls>(Task(block), node, program, first, count, arena, turns, give);
}

}  // namespace trek::device
