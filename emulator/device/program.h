// Micro-programs: chains, tails and prologues, and with no steps at all the plain reading and writing of
// elements in any type and errand. Every unit reads and writes elements through run() where it can, so
// types, conversions, broadcasting and fused steps are here and nowhere else.
//
// A thread takes four neighbouring positions (narrow form) or one (wide form) through all steps; values
// between steps are in slots of its own in shared memory, because a register cannot be chosen at run time.
#pragma once

#include "emulator/device/apply.h"
#include "emulator/device/index.h"
#include "emulator/device/shared.h"

#ifdef TREK_SPECIALISED
#include "emulator/device/program_specialised.h"
#endif

namespace trek::device {

#ifndef TREK_SPECIALISED
namespace program_detail {

inline constexpr uint32_t kToShared = ~0u;  // no result of the node, but the staged array

template <uint32_t kCount>
struct Values {
  uint32_t e[kCount];
};
using Four = Values<4>;
// Four values at a byte offset of the shared memory that is a multiple of 16, or one for all.
struct Place {
  uint32_t at;
  bool one;
};

TREK_UNIT Four get(const Task& task, Place place) {
  if (place.one) {
    const uint32_t one = *task.shared<Aliased<uint32_t>>(place.at);
    return {{one, one, one, one}};
  }
  const Words four = *task.shared<Words>(place.at);
  return {{four.e[0], four.e[1], four.e[2], four.e[3]}};
}
TREK_UNIT uint32_t get_one(const Task& task, Place place, uint32_t e) {
  return task.shared<Aliased<uint32_t>>(place.at)[place.one ? 0 : e];
}
TREK_UNIT void put(const Task& task, uint32_t to, const Four& values) {
  *task.shared<Words>(to) = {{values.e[0], values.e[1], values.e[2], values.e[3]}};
}

// Elements of 16 or 32 bits that lie side by side are read and written together.
struct __attribute__((may_alias, aligned(8))) Halves {
  uint16_t e[4];
};
TREK_UNIT bool is_aligned(const std::byte* at, uint32_t bytes) {
  return (reinterpret_cast<uintptr_t>(at) & (bytes - 1)) == 0;
}
TREK_UNIT bool load_four(const std::byte* at, DType type, Four& values) {
  if (size_of(type) == 4 && is_aligned(at, 16)) {
    const Words words = *reinterpret_cast<const Words*>(at);
    for (int e = 0; e < 4; ++e) values.e[e] = words.e[e];
    return true;
  }
  if (type == DType::bf16 && is_aligned(at, 8)) {
    const Halves halves = *reinterpret_cast<const Halves*>(at);
    for (int e = 0; e < 4; ++e) values.e[e] = uint32_t{halves.e[e]} << 16;
    return true;
  }
  return false;
}
TREK_UNIT bool store_four(std::byte* at, DType type, const Four& values) {
  if (size_of(type) == 4 && is_aligned(at, 16)) {
    Words words{};
    for (int e = 0; e < 4; ++e) words.e[e] = values.e[e];
    *reinterpret_cast<Words*>(at) = words;
    return true;
  }
  if (type == DType::bf16 && is_aligned(at, 8)) {
    Halves halves{};
    for (int e = 0; e < 4; ++e) halves.e[e] = semantics::narrow<BF16>(as_float(values.e[e])).bits;
    *reinterpret_cast<Halves*>(at) = halves;
    return true;
  }
  return false;
}

// The positions that a thread takes through a narrow program are p ... p + 3; what elements they are is in
// shared memory, four numbers of each thread. Beyond the end it is the last one again.
TREK_UNIT int64_t* elements_of(const Task& task) {
  const uint32_t first = 4 * task.thread();
  return task.shared<int64_t>(shared_at::kElements) + first;
}
TREK_UNIT void say_elements(const Task& task, int64_t first) {
  for (int e = 0; e < 4; ++e) elements_of(task)[e] = first + e;
}
// Whether the four are all there, and side by side.
TREK_UNIT_CALL bool find_elements(Task task, const Positions& where, uint32_t p, uint32_t count) {
  int64_t* elements = elements_of(task);
  bool adjacent = p + 4 <= count;
  TREK_ROLLED
  for (uint32_t e = 0; e < 4; ++e) {
    elements[e] = element_at(task.node(), where, p + e < count ? p + e : count - 1);
    adjacent = adjacent && elements[e] == elements[0] + e;
  }
  return adjacent;
}

// Slots of the narrow form: four words each, a thread's beside the next thread's.
TREK_UNIT uint32_t slot_at(const Task& task, uint32_t slot) {
  return shared_at::kSlots + 16 * (slot * task.threads() + task.thread());
}
TREK_UNIT Place place_of_input(const Task& task, Source source, uint32_t main) {
  if (source.kind == Source::slot) return {slot_at(task, source.index), false};
  if (source.kind == Source::main) return {main, false};
  return {shared_at::kScalars + 8 * source.index, true};
}

// An operand's four elements, wherever they are.
TREK_UNIT_CALL void load_scattered(Task task, const Operand& from, uint32_t to) {
  TREK_ROLLED
  for (uint32_t e = 0; e < 4; ++e) {
    const int64_t at = place_of(task.node(), from.map, elements_of(task)[e]);
    task.shared<Aliased<uint32_t>>(to)[e] =
        load32(task.memory(from), static_cast<DType>(from.dtype), at);
  }
}

TREK_UNIT void load_slots(const Task& task, const Program& program, bool adjacent) {
  for (uint32_t l = 0; l < program.loads; ++l) {
    const Load load = *task.node().load(program.first_load + l);
    const Operand& from = task.node().operand(load.operand);
    const auto type = static_cast<DType>(from.dtype);
    const uint32_t to = slot_at(task, load.slot);
    if (adjacent) {
      // A row that is repeated (a bias) lies side by side too, but where it begins again. Broadcasting
      // never turns the order round, so the last is three ahead only where all four are in line.
      int64_t at = elements_of(task)[0];
      bool in_line = true;
      if (from.map.kind != Map::same) {
        const int64_t last = place_of(task.node(), from.map, at + 3);
        at = place_of(task.node(), from.map, at);
        in_line = last == at + 3;
      }
      Four values{};
      if (in_line && load_four(task.memory(from) + at * size_of(type), type, values)) {
        put(task, to, values);
        continue;
      }
    }
    load_scattered(task, from, to);
  }
}

// Four elements in line, of a type that flat programs have, from a place that is aligned for it.
TREK_UNIT Four load_in_line(const std::byte* at, DType type) {
  if (type == DType::bf16) {
    const Halves halves = *reinterpret_cast<const Halves*>(at);
    return {{uint32_t{halves.e[0]} << 16, uint32_t{halves.e[1]} << 16, uint32_t{halves.e[2]} << 16,
             uint32_t{halves.e[3]} << 16}};
  }
  if (size_of(type) == 1) {
    const auto bytes = *reinterpret_cast<const Aliased<uint32_t>*>(at);
    return {{bytes & 0xFF, bytes >> 8 & 0xFF, bytes >> 16 & 0xFF, bytes >> 24}};
  }
  const Words words = *reinterpret_cast<const Words*>(at);
  return {{words.e[0], words.e[1], words.e[2], words.e[3]}};
}
// One such element.
TREK_UNIT uint32_t load_one(const std::byte* at, DType type) {
  if (type == DType::bf16) return uint32_t{read<uint16_t>(at, 0)} << 16;
  return size_of(type) == 1 ? read<uint8_t>(at, 0) : read<uint32_t>(at, 0);
}
TREK_UNIT Four load_flat_one(const Task& task, const Node& node, const Load& load, int64_t first) {
  const Operand& from = node.operand(load.operand);
  const auto type = static_cast<DType>(from.dtype);
  const std::byte* memory = task.memory(from);
  if (from.map.kind == Map::one) {
    const uint32_t one = load_one(memory, type);
    return {{one, one, one, one}};
  }
  const int64_t at = from.map.kind == Map::same ? first : place_by_magic(node, from.map, first);
  return load_in_line(memory + at * size_of(type), type);
}
// load_slots() of a flat program, for the four elements from `first`, a multiple of four: two operands are
// asked for before either is waited for.
TREK_UNIT void load_flat(const Task& task, const Node& node, const Program& program,
                         int64_t first) {
  for (uint32_t l = 0; l < program.loads; l += 2) {
    const Load a = *node.load(program.first_load + l);
    const Four x = load_flat_one(task, node, a, first);
    if (l + 1 < program.loads) {
      const Load b = *node.load(program.first_load + l + 1);
      put(task, slot_at(task, b.slot), load_flat_one(task, node, b, first));
    }
    put(task, slot_at(task, a.slot), x);
  }
}

// A float rounded to a type that simple steps have.
TREK_UNIT float rounded_in_line(DType to, float x) {
  if (to == DType::bf16) return semantics::widen(semantics::narrow<BF16>(x));
  if (to == DType::f16) return semantics::widen(semantics::narrow<F16>(x));
  return x;
}
// A step that is_simple(), of its values: y and z are looked at where the instruction has them.
template <uint32_t kCount>
TREK_UNIT Values<kCount> apply_simple(Opcode opcode, DType from, DType to, const Values<kCount>& x,
                                      const Values<kCount>& y, const Values<kCount>& z) {
  Values<kCount> r = x;
#define TREK_EACH(Id, expression)           \
  case Opcode::Id:                          \
    for (uint32_t e = 0; e < kCount; ++e) { \
      const float a = as_float(x.e[e]);     \
      const float b = as_float(y.e[e]);     \
      const float c = as_float(z.e[e]);     \
      static_cast<void>(b);                 \
      static_cast<void>(c);                 \
      r.e[e] = bits_of(expression);         \
    }                                       \
    break;
  switch (opcode) {
    TREK_EACH(Add, semantics::add(a, b))
    TREK_EACH(Sub, semantics::sub(a, b))
    TREK_EACH(Mul, semantics::mul(a, b))
    TREK_EACH(Maximum, semantics::max(a, b))
    TREK_EACH(Relu, semantics::relu(a))
    TREK_EACH(ReluGrad, semantics::relu_grad(a, b))
    TREK_EACH(Fma, semantics::fma(a, b, c))
    case Opcode::Where:
      for (uint32_t e = 0; e < kCount; ++e) r.e[e] = x.e[e] != 0 ? y.e[e] : z.e[e];
      return r;
    case Opcode::Copy:
      return r;
    default:  // Cast: what is left is to round; an integer is less than 256
      if (!is_float(from))
        for (uint32_t e = 0; e < kCount; ++e) r.e[e] = bits_of(static_cast<float>(x.e[e]));
      break;
  }
#undef TREK_EACH
  if (to != DType::f32)
    for (uint32_t& bits : r.e) bits = bits_of(rounded_in_line(to, as_float(bits)));
  return r;
}
// A step that is_simple(), of four elements.
TREK_UNIT Four step_four(const Task& task, const Step& step, uint32_t main) {
  return apply_simple(static_cast<Opcode>(step.opcode), static_cast<DType>(step.from),
                      static_cast<DType>(step.to),
                      get(task, place_of_input(task, step.inputs[0], main)),
                      get(task, place_of_input(task, step.inputs[1], main)),
                      get(task, place_of_input(task, step.inputs[2], main)));
}

// A narrow step of any instruction for one element, from the bits that `word` finds for its inputs.
template <class Word>
TREK_UNIT uint32_t step_one(const Task& task, const Step& step, int64_t element, Word word) {
  const auto opcode = static_cast<Opcode>(step.opcode);
  const auto from = static_cast<DType>(step.from);
  const auto to = static_cast<DType>(step.to);
  const auto narrow = [&](Source source) { return source.kind == Source::none ? 0 : word(source); };
  if (is_simple(opcode, from, to))
    return apply_simple<1>(opcode, from, to, {{narrow(step.inputs[0])}}, {{narrow(step.inputs[1])}},
                           {{narrow(step.inputs[2])}})
        .e[0];
  const auto number = [&](Source source) {
    return source.kind == Source::none ? 0 : static_cast<uint32_t>(task.scalar(source.index));
  };
  // What apply() does of floats, without what it does of all others.
  if (form_of(from) == Form::real32 && opcode != Opcode::Cast) {
    const auto bits = static_cast<uint32_t>(
        apply_real32(opcode, narrow(step.inputs[0]), narrow(step.inputs[1]), narrow(step.inputs[2]),
                     number(step.numbers[0]), number(step.numbers[1])));
    return to == DType::boolean ? bits : bits_of(rounded(to, as_float(bits)));
  }
  const auto wide = [&](Source source) {
    const uint32_t bits = word(source);
    return form_of(from) == Form::sint ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(bits)})
                                       : uint64_t{bits};
  };
  const Inputs in{wide(step.inputs[0]), wide(step.inputs[1]), wide(step.inputs[2]),
                  task.scalar(step.numbers[0].index), task.scalar(step.numbers[1].index)};
  if (!divides_by_zero(opcode, from, in.y))
    return static_cast<uint32_t>(apply(opcode, from, static_cast<DType>(step.to), in));
  task.fail(element);
  return 0;
}

// A step of an instruction that is not among step_four()'s, element by element. Values are read and written
// in place, so that none is chosen by a loop's number in registers.
TREK_UNIT_CALL void step_slowly(Task task, const Step& step, uint32_t main) {
  TREK_ROLLED
  for (uint32_t e = 0; e < 4; ++e)
    task.shared<Aliased<uint32_t>>(slot_at(task, step.slot))[e] = step_one(
        task, step, elements_of(task)[e],
        [&](Source source) { return get_one(task, place_of_input(task, source, main), e); });
}

// The first `count` of four values to the elements of a result.
TREK_UNIT_CALL void store_scattered(Task task, const Operand& to, Place from, uint32_t count) {
  TREK_ROLLED
  for (uint32_t e = 0; e < count && e < 4; ++e)
    store32(task.memory(to), static_cast<DType>(to.dtype), elements_of(task)[e],
            get_one(task, from, e));
}

// What run() is to do. It stays in the caller's memory, so that it takes no registers meanwhile.
struct Errand {
  Positions where;
  uint32_t which = 0;
  uint32_t count = 0;
  uint32_t at = 0;
  uint32_t out = 0;
};

TREK_UNIT_CALL void run_narrow(Task task, const Errand& errand, const Program& program) {
  const Node& node = task.node();
  const bool fours = rows_of_fours(node, errand.where);
  for (uint32_t p = 4 * task.thread(); p < errand.count; p += 4 * task.threads()) {
    int64_t first = 0;
    bool adjacent = fours && p + 4 <= errand.count;
    if (adjacent) {
      first = element_at(node, errand.where, p);
      say_elements(task, first);
    } else {
      adjacent = find_elements(task, errand.where, p, errand.count);
      first = elements_of(task)[0];
    }
    if (adjacent && program.flat != 0 && (first & 3) == 0)
      load_flat(task, node, program, first);
    else
      load_slots(task, program, adjacent);
    for (uint32_t s = 0; s < program.steps; ++s) {
      const Step& step = *node.step(program.first_step + s);
      if (is_simple(static_cast<Opcode>(step.opcode), static_cast<DType>(step.from),
                    static_cast<DType>(step.to)))
        put(task, slot_at(task, step.slot), step_four(task, step, errand.at + 4 * p));
      else
        step_slowly(task, step, errand.at + 4 * p);
    }
    const Place result = place_of_input(task, program.result, errand.at + 4 * p);
    if (errand.out == kToShared) {
      put(task, errand.at + 4 * p, get(task, result));  // there is room for a whole four
      continue;
    }
    const Operand& to = node.result(errand.out);
    const auto type = static_cast<DType>(to.dtype);
    if (!adjacent || !store_four(task.memory(to) + first * size_of(type), type, get(task, result)))
      store_scattered(task, to, result, errand.count - p);
  }
}

// What a narrow program reads for one element, to this thread's slots.
TREK_UNIT_CALL void load_element(Task task, const Program& program, int64_t element) {
  const Node& node = task.node();
  TREK_ROLLED
  for (uint32_t l = 0; l < program.loads; ++l) {
    const Load& load = *node.load(program.first_load + l);
    const Operand& from = node.operand(load.operand);
    const int64_t at = from.map.kind == Map::same  ? element
                       : from.map.kind == Map::one ? 0
                                                   : place_of(node, from.map, element);
    task.shared<Aliased<uint32_t>>(slot_at(task, load.slot))[0] =
        load32(task.memory(from), static_cast<DType>(from.dtype), at);
  }
}
// Its value in the narrow form, from its main value and what load_element() has read.
TREK_UNIT_CALL uint32_t step_element(Task task, const Program& program, uint32_t main,
                                     int64_t element) {
  const auto slot = [&](uint32_t of) -> uint32_t& {
    return task.shared<Aliased<uint32_t>>(slot_at(task, of))[0];
  };
  const auto word = [&](Source source) {
    if (source.kind == Source::slot) return slot(source.index);
    return source.kind == Source::main ? main : static_cast<uint32_t>(task.scalar(source.index));
  };
  TREK_ROLLED
  for (uint32_t s = 0; s < program.steps; ++s) {
    const Step& step = *task.node().step(program.first_step + s);
    slot(step.slot) = step_one(task, step, element, word);
  }
  return word(program.result);
}

// run_narrow() where there are few elements and long steps: a thread takes one after the other.
TREK_UNIT_CALL void run_ones(Task task, const Errand& errand, const Program& program) {
  TREK_ROLLED
  for (uint32_t p = task.thread(); p < errand.count; p += task.threads()) {
    auto& main = task.shared<Aliased<uint32_t>>(errand.at)[p];
    const int64_t element = element_at(task.node(), errand.where, p);
    load_element(task, program, element);
    const uint32_t bits = step_element(task, program, main, element);
    if (errand.out == kToShared) {
      main = bits;
      continue;
    }
    const Operand& to = task.node().result(errand.out);
    store32(task.memory(to), static_cast<DType>(to.dtype), element, bits);
  }
}

// A value of a wide program at position p, which is element `element`.
TREK_UNIT_CALL uint64_t wide_value(Task task, Source source, uint32_t main, int64_t element) {
  switch (source.kind) {
    case Source::slot:
      return task.shared<uint64_t>(
          shared_at::kSlots)[source.index * task.threads() + task.thread()];
    case Source::main:
      return *task.shared<uint64_t>(main);
    case Source::scalar:
      return task.scalar(source.index);
    case Source::operand: {
      const Operand& from = task.node().operand(source.index);
      return load64(task.memory(from), static_cast<DType>(from.dtype),
                    place_of(task.node(), from.map, element));
    }
    default:
      return 0;
  }
}

TREK_UNIT_CALL void run_wide(Task task, const Errand& errand, const Program& program) {
  for (uint32_t p = task.thread(); p < errand.count; p += task.threads()) {
    const int64_t element = element_at(task.node(), errand.where, p);
    const uint32_t main = errand.at + 8 * p;
    TREK_ROLLED
    for (uint32_t s = 0; s < program.steps; ++s) {
      const Step& step = *task.node().step(program.first_step + s);
      Inputs in{};
      in.x = wide_value(task, step.inputs[0], main, element);
      in.y = wide_value(task, step.inputs[1], main, element);
      in.z = wide_value(task, step.inputs[2], main, element);
      in.p = wide_value(task, step.numbers[0], main, element);
      in.q = wide_value(task, step.numbers[1], main, element);
      const auto opcode = static_cast<Opcode>(step.opcode);
      uint64_t bits = 0;
      if (divides_by_zero(opcode, static_cast<DType>(step.from), in.y))
        task.fail(element);
      else
        bits = apply(opcode, static_cast<DType>(step.from), static_cast<DType>(step.to), in);
      task.shared<uint64_t>(shared_at::kSlots)[step.slot * task.threads() + task.thread()] = bits;
    }
    const uint64_t bits = wide_value(task, program.result, main, element);
    if (errand.out == kToShared)
      *task.shared<uint64_t>(main) = bits;
    else
      give_result(task, errand.out, element, bits);
  }
}

}  // namespace program_detail

// The programs of a node: fetch[0], fetch[1], deliver[0], deliver[1].
inline constexpr uint32_t kDeliver = 2;
using program_detail::kToShared;

// Runs program `which` of the node at positions 0 ... count - 1. Its main value at position p is the p-th of
// the array at the byte offset `at` of the shared memory (in the narrow form of uint32_t, else of uint64_t).
// The results go to result `out` of the node, or for kToShared to that array, which has room for a multiple
// of four. Other threads' results are there after a sync, which is the caller's.
TREK_UNIT void run(const Task& task, uint32_t which, const Positions& where, uint32_t count,
                   uint32_t at, uint32_t out) {
  const Program& program =
      which < kDeliver ? task.node().fetch[which] : task.node().deliver[which - kDeliver];
  const program_detail::Errand errand{where, which, count, at, out};
  if (program.narrow != 0 && program.slow != 0 && count <= 2 * task.threads())
    program_detail::run_ones(task, errand, program);
  else if (program.narrow != 0)
    program_detail::run_narrow(task, errand, program);
  else
    program_detail::run_wide(task, errand, program);
}

// Gives element `element` of result 0 by the narrow deliver program, from its main value. One thread; others
// may do the same for other elements. Before deliver_loaded() the thread must have loaded the element.
TREK_UNIT void load_delivery(const Task& task, int64_t element) {
  program_detail::load_element(task, task.node().deliver[0], element);
}
TREK_UNIT void deliver_loaded(const Task& task, uint32_t main, int64_t element) {
  const Operand& to = task.node().result(0);
  const uint32_t bits = program_detail::step_element(task, task.node().deliver[0], main, element);
  store32(task.memory(to), static_cast<DType>(to.dtype), element, bits);
}
TREK_UNIT void deliver_one(const Task& task, uint32_t main, int64_t element) {
  load_delivery(task, element);
  deliver_loaded(task, main, element);
}

#endif

TREK_UNIT Positions range_of(int64_t first) {
  Positions where;
  where.first = first;
  return where;
}

// The unit of pointwise nodes: the elements [first, first + count) of the result.
TREK_UNIT_CALL void run_elements(Task task, int64_t first, int64_t count) {
  constexpr int64_t kMost = 1 << 24;
  for (int64_t done = 0; done < count; done += kMost) {
    const int64_t left = count - done;
    run(task, kDeliver, range_of(first + done), static_cast<uint32_t>(left < kMost ? left : kMost),
        shared_at::kValues, 0);
  }
}

}  // namespace trek::device
