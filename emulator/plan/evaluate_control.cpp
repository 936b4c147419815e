// What the control processor does: decisions, single elements, traps, and the exchange with the host.
#include <vector>

#include "emulator/plan/evaluate.h"
#include "isa/semantics/target.h"

namespace trek::plan {
namespace {

using isa::Opcode;
using isa::TrapCode;

Faulted decide(Work& work) {
  Decision& decision = *work.world.decision;
  if (work.node.opcode != Opcode::Loop) {
    decision.trips = work.operand(0, 0) != 0 ? 1 : 0;
    return std::nullopt;
  }
  decision.from = static_cast<int64_t>(work.operand(0, 0));
  decision.step = static_cast<int64_t>(work.operand(2, 0));
  if (decision.step == 0) return Fault{TrapCode::InvalidArgument, -1};
  decision.trips = trips_of(decision.from, static_cast<int64_t>(work.operand(1, 0)), decision.step);
  return std::nullopt;
}

// The element that `at` names; nothing where it is outside.
std::optional<int64_t> place_of(Work& work) {
  const isa::Shape& shape = work.type(0).shape;
  int64_t place = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t at = work.integer("at", static_cast<size_t>(i));
    if (at < 0 || at >= shape[i]) return std::nullopt;
    place = place * shape[i] + at;
  }
  return place;
}

Faulted exchange(Work& work) {
  const isa::DType type = work.type(0).dtype;
  const auto place = place_of(work);
  if (!place) return Fault{TrapCode::IndexOutOfRange, -1};
  if (work.node.opcode == Opcode::Load) {
    work.write(work.node.results[0], 0,
               cast_bits(type, work.result_type(0).dtype, work.operand(0, *place)));
  } else {
    work.write(work.node.operands[0].index, *place,
               cast_bits(work.type_of(work.node.operands[1]), type, work.operand(1, 0)));
  }
  return std::nullopt;
}

Faulted assert_finite(Work& work) {
  const isa::Type& type = work.type(0);
  for (int64_t i = 0; i < type.elements(); ++i) {
    const double x = value_as<double>(type.dtype, work.operand(0, i));
    if (!(semantics::abs(x) <= 0x1.fffffffffffffp+1023)) return Fault{TrapCode::NotFinite, i};
  }
  return std::nullopt;
}

void emit(Work& work) {
  const isa::Type& type = work.type(0);
  const auto size = static_cast<size_t>(isa::byte_size(type.dtype));
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  for (int64_t i = 0; i < type.elements(); ++i) {
    const uint64_t bits = work.operand(0, i);
    std::memcpy(bytes.data() + static_cast<size_t>(i) * size, &bits, size);
  }
  if (work.world.emit)
    work.world.emit(work.plan.texts[attribute(work.node, "name").items[0].index], type, bytes);
}

void next(Work& work) {
  const isa::Type& type = work.result_type(0);
  const auto size = static_cast<size_t>(isa::byte_size(type.dtype));
  std::vector<std::byte> block(static_cast<size_t>(type.bytes()));
  const uint32_t stream =
      work.plan.buffers[work.plan.view(work.node.operands[0].index).buffer].source;
  const bool more = work.world.next && work.world.next(stream, block);
  if (!more) std::fill(block.begin(), block.end(), std::byte{0});
  for (int64_t i = 0; i < type.elements(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, block.data() + static_cast<size_t>(i) * size, size);
    work.write(work.node.results[0], i, bits);
  }
  work.write(work.node.results[1], 0, more ? 1 : 0);
}

}  // namespace

Faulted evaluate_control(Work& work) {
  switch (work.node.opcode) {
    case Opcode::Loop:
    case Opcode::Test:
    case Opcode::If:
      return decide(work);
    case Opcode::Load:
    case Opcode::Store:
      return exchange(work);
    case Opcode::AssertFinite:
      return assert_finite(work);
    case Opcode::Trap:
      return Fault{TrapCode::Explicit, -1};
    case Opcode::Emit:
      emit(work);
      return std::nullopt;
    case Opcode::Next:
      next(work);
      return std::nullopt;
    default:
      std::abort();  // the linker has resolved every other one
  }
}

}  // namespace trek::plan
