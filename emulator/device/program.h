// Micro-programs: chains, tails and prologues, and with no steps at all the plain reading and writing of
// elements in any type and order. Every unit reads and writes elements through run() where it can, so
// types, conversions, broadcasting and fused steps are here and nowhere else.
//
// A thread takes four neighbouring positions (narrow form) or one (wide form) through all steps; values
// between steps are in slots of its own in shared memory, because a register cannot be chosen at run time.
#pragma once

#include "emulator/device/apply.h"
#include "emulator/device/index.h"
#include "emulator/device/shared.h"

namespace trek::device {

struct Four {
  uint32_t e[4];
};

namespace program_detail {

// Where a narrow step's input lies: of four values, or the same for all.
struct Place {
  const uint32_t* at;
  bool one;
};

struct Frame {
  uint32_t* slots;       // of this thread
  uint32_t stride;       // words from one slot to the next
  const uint32_t* main;  // of the first of the four
  const uint64_t* scalars;
};

TREK_UNIT Place place_of_input(const Frame& frame, Source source) {
  if (source.kind == Source::slot) return {frame.slots + source.index * frame.stride, false};
  if (source.kind == Source::main) return {frame.main, false};
  return {reinterpret_cast<const uint32_t*>(frame.scalars + source.index), true};
}
TREK_UNIT Four get(Place place) {
  const auto* at = reinterpret_cast<const Aliased<uint32_t>*>(place.at);
  if (place.one) return {{at[0], at[0], at[0], at[0]}};
  return {{at[0], at[1], at[2], at[3]}};
}
TREK_UNIT void put(uint32_t* to, const Four& values) {
  auto* at = reinterpret_cast<Aliased<uint32_t>*>(to);
  at[0] = values.e[0];
  at[1] = values.e[1];
  at[2] = values.e[2];
  at[3] = values.e[3];
}

// Elements of 16 or 32 bits that lie side by side are read and written together.
struct __attribute__((may_alias, aligned(16))) Words {
  uint32_t e[4];
};
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
    Words words;
    for (int e = 0; e < 4; ++e) words.e[e] = values.e[e];
    *reinterpret_cast<Words*>(at) = words;
    return true;
  }
  if (type == DType::bf16 && is_aligned(at, 8)) {
    Halves halves;
    for (int e = 0; e < 4; ++e) halves.e[e] = semantics::narrow<BF16>(as_float(values.e[e])).bits;
    *reinterpret_cast<Halves*>(at) = halves;
    return true;
  }
  return false;
}

// The four elements' indices.
struct Indices {
  int64_t e[4];
};

TREK_UNIT void load_slots(const Task& task, const Program& program, const Frame& frame,
                          const Indices& at, bool adjacent) {
  const Load* loads = task.node.load(program.first_load);
  for (uint32_t l = 0; l < program.loads; ++l) {
    const Operand& from = task.node.operand(loads[l].operand);
    const auto type = static_cast<DType>(from.dtype);
    const std::byte* data = task.memory(from);
    Four values;
    const bool plain = adjacent && from.map.kind == Map::same;
    if (!plain || !load_four(data + at.e[0] * size_of(type), type, values)) {
      for (int e = 0; e < 4; ++e)
        values.e[e] = load32(data, type, place_of(task.node, from.map, at.e[e]));
    }
    put(frame.slots + loads[l].slot * frame.stride, values);
  }
}

// One narrow step. The instructions of networks are here in lines of four; every other goes element by
// element through a call.
TREK_UNIT void step_four(const Task& task, const Step& step, const Frame& frame,
                         const Indices& at) {
  const auto opcode = static_cast<Opcode>(step.opcode);
  const auto from = static_cast<DType>(step.from);
  const auto to = static_cast<DType>(step.to);
  const Place px = place_of_input(frame, step.inputs[0]);
  const Place py = place_of_input(frame, step.inputs[1]);
  const Place pz = place_of_input(frame, step.inputs[2]);
  uint32_t* slot = frame.slots + step.slot * frame.stride;
  const Form form = form_of(from);
  Four r;
#define TREK_FOUR(expression)           \
  {                                     \
    const Four x = get(px);             \
    const Four y = get(py);             \
    for (int e = 0; e < 4; ++e) {       \
      const float a = as_float(x.e[e]); \
      const float b = as_float(y.e[e]); \
      r.e[e] = bits_of(expression);     \
    }                                   \
    break;                              \
  }
  bool done = true;
  if (form == Form::real32) {
    switch (opcode) {
      case Opcode::Add:
        TREK_FOUR(semantics::add(a, b))
      case Opcode::Sub:
        TREK_FOUR(semantics::sub(a, b))
      case Opcode::Mul:
        TREK_FOUR(semantics::mul(a, b))
      case Opcode::Maximum:
        TREK_FOUR(semantics::max(a, b))
      case Opcode::ReluGrad:
        TREK_FOUR(semantics::relu_grad(a, b))
      case Opcode::Relu: {
        const Four x = get(px);
        for (int e = 0; e < 4; ++e) r.e[e] = bits_of(semantics::relu(as_float(x.e[e])));
        break;
      }
      case Opcode::Fma: {
        const Four x = get(px);
        const Four y = get(py);
        const Four z = get(pz);
        for (int e = 0; e < 4; ++e)
          r.e[e] = bits_of(semantics::fma(as_float(x.e[e]), as_float(y.e[e]), as_float(z.e[e])));
        break;
      }
      default:
        done = false;
    }
    if (done) {
      if (to != DType::f32)
        for (int e = 0; e < 4; ++e) r.e[e] = bits_of(rounded(to, as_float(r.e[e])));
      return put(slot, r);
    }
  }
#undef TREK_FOUR
  if (opcode == Opcode::Copy) return put(slot, get(px));
  if (opcode == Opcode::Where) {
    const Four x = get(px);
    const Four y = get(py);
    const Four z = get(pz);
    for (int e = 0; e < 4; ++e) r.e[e] = x.e[e] != 0 ? y.e[e] : z.e[e];
    return put(slot, r);
  }
  if (opcode == Opcode::Cast) {
    const Four x = get(px);
    for (int e = 0; e < 4; ++e) r.e[e] = cast32(from, to, x.e[e]);
    return put(slot, r);
  }
  // Values are read and written in place, so that none is chosen by a loop's number in registers.
  const auto word = [](Place place, int e) {
    return reinterpret_cast<const Aliased<uint32_t>*>(place.at)[place.one ? 0 : e];
  };
  const auto extended = [form](uint32_t bits) {
    return form == Form::sint ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(bits)})
                              : uint64_t{bits};
  };
  const uint64_t p = frame.scalars[step.numbers[0].index];
  const uint64_t q = frame.scalars[step.numbers[1].index];
  TREK_ROLLED
  for (int e = 0; e < 4; ++e) {
    const Inputs in{extended(word(px, e)), extended(word(py, e)), extended(word(pz, e)), p, q};
    uint64_t bits = 0;
    if (divides_by_zero(opcode, from, in.y))
      task.fail(at.e[e]);
    else
      bits = apply(opcode, from, to, in);
    reinterpret_cast<Aliased<uint32_t>*>(slot)[e] = static_cast<uint32_t>(bits);
  }
}

TREK_UNIT void run_narrow(const Task& task, const Program& program, const Positions& where,
                          uint32_t count, const uint32_t* main, uint32_t* staged,
                          const Operand* out) {
  Frame frame;
  frame.slots = task.shared<uint32_t>(shared_at::kSlots) + 4 * task.thread();
  frame.stride = 4 * task.threads();
  frame.scalars = task.shared<uint64_t>(shared_at::kScalars);
  for (uint32_t p = 4 * task.thread(); p < count; p += 4 * task.threads()) {
    const bool full = p + 4 <= count;
    Indices at;
    for (uint32_t e = 0; e < 4; ++e)  // beyond the end the last one again
      at.e[e] = element_at(task.node, where, p + e < count ? p + e : count - 1);
    const bool adjacent =
        full && at.e[1] == at.e[0] + 1 && at.e[2] == at.e[0] + 2 && at.e[3] == at.e[0] + 3;
    frame.main = main + p;
    load_slots(task, program, frame, at, adjacent);
    const Step* steps = task.node.step(program.first_step);
    for (uint32_t s = 0; s < program.steps; ++s) step_four(task, steps[s], frame, at);
    const Four values = get(place_of_input(frame, program.result));
    if (staged != nullptr) {
      put(staged + p, values);  // staging has room for a whole four
      continue;
    }
    const auto type = static_cast<DType>(out->dtype);
    std::byte* data = task.memory(*out);
    if (adjacent && store_four(data + at.e[0] * size_of(type), type, values)) continue;
    for (uint32_t e = 0; e < 4; ++e)
      if (p + e < count) store32(data, type, at.e[e], values.e[e]);
  }
}

TREK_UNIT void run_wide(const Task& task, const Program& program, const Positions& where,
                        uint32_t count, const uint64_t* main, uint64_t* staged,
                        const Operand* out) {
  uint64_t* slots = task.shared<uint64_t>(shared_at::kSlots) + task.thread();
  const uint32_t stride = task.threads();
  for (uint32_t p = task.thread(); p < count; p += task.threads()) {
    const int64_t at = element_at(task.node, where, p);
    const auto value = [&](Source source) -> uint64_t {
      switch (source.kind) {
        case Source::slot:
          return slots[source.index * stride];
        case Source::main:
          return main[p];
        case Source::scalar:
          return task.scalar(source.index);
        case Source::operand: {
          const Operand& from = task.node.operand(source.index);
          return load64(task.memory(from), static_cast<DType>(from.dtype),
                        place_of(task.node, from.map, at));
        }
        default:
          return 0;
      }
    };
    TREK_ROLLED
    for (uint32_t s = 0; s < program.steps; ++s) {
      const Step& step = *task.node.step(program.first_step + s);
      const auto opcode = static_cast<Opcode>(step.opcode);
      const auto from = static_cast<DType>(step.from);
      Inputs in{};
      in.x = value(step.inputs[0]);
      in.y = value(step.inputs[1]);
      in.z = value(step.inputs[2]);
      in.p = value(step.numbers[0]);
      in.q = value(step.numbers[1]);
      uint64_t bits = 0;
      if (divides_by_zero(opcode, from, in.y))
        task.fail(at);
      else
        bits = apply(opcode, from, static_cast<DType>(step.to), in);
      slots[step.slot * stride] = bits;
    }
    const uint64_t bits = value(program.result);
    if (staged != nullptr)
      staged[p] = bits;
    else
      store64(task.memory(*out), static_cast<DType>(out->dtype), at, bits);
  }
}

}  // namespace program_detail

// Runs a program at positions 0 ... count - 1. Its main value at position p is the p-th of the array at the
// byte offset `at` of the shared memory (in the narrow form of uint32_t, else of uint64_t). The results go
// to `out`, a result of the node, or without one to that array, which has room for a multiple of four. Other
// threads' results are there after a sync, which is the caller's.
TREK_UNIT_CALL void run(Task task, const Program& program, Positions where, uint32_t count,
                        uint32_t at, const Operand* out) {
  if (program.narrow != 0) {
    auto* values = task.shared<uint32_t>(at);
    program_detail::run_narrow(task, program, where, count, values,
                               out == nullptr ? values : nullptr, out);
  } else {
    auto* values = task.shared<uint64_t>(at);
    program_detail::run_wide(task, program, where, count, values, out == nullptr ? values : nullptr,
                             out);
  }
}

// The unit of pointwise nodes: the elements [first, first + count) of the result.
TREK_UNIT void run_elements(const Task& task, int64_t first, int64_t count) {
  constexpr int64_t kMost = 1 << 24;
  for (int64_t done = 0; done < count; done += kMost) {
    Positions where;
    where.first = first + done;
    const int64_t left = count - done;
    run(task, task.node.deliver[0], where, static_cast<uint32_t>(left < kMost ? left : kMost),
        shared_at::kValues, &task.node.result(0));
  }
}

}  // namespace trek::device
