#include "emulator/resident/trap_words.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include <fmt/format.h>

#include "emulator/plan/geometry.h"
#include "isa/ops.h"

namespace trek::resident {
namespace {

using isa::Opcode;
using isa::TrapCode;

std::string index_text(const isa::Type& type, int64_t value) {
  return type.dtype == isa::DType::u64 ? std::to_string(static_cast<uint64_t>(value))
                                       : std::to_string(value);
}

std::string outside(const plan::Plan& plan, const plan::Node& node, const TrapRecord& trap) {
  const auto type = [&](size_t i) -> const isa::Type& { return node.operand_types[i]; };
  switch (node.opcode) {
    case Opcode::Load:
    case Opcode::Store:
      return fmt::format("index {} is outside axis {} of size {}", trap.value, trap.extra,
                         type(0).shape[static_cast<int>(trap.extra)]);
    case Opcode::Slice:
    case Opcode::Update: {
      const auto axis = static_cast<int>(trap.extra);
      const bool is_slice = node.opcode == Opcode::Slice;
      int64_t span = is_slice ? plan.views[node.results[0]].type.shape[axis] : type(1).shape[axis];
      if (is_slice && span > 0)
        if (const plan::Attribute& strides = plan::attribute(node, "stride"); strides.given)
          span =
              (span - 1) * plan::static_integer(plan, strides.items[static_cast<size_t>(axis)]) + 1;
      return fmt::format("{} elements from {} on leave axis {} of size {}", span, trap.value, axis,
                         type(0).shape[axis]);
    }
    case Opcode::OneHot:
      return fmt::format("index {} is outside depth {}", index_text(type(0), trap.value),
                         trap.extra);
    case Opcode::Gather:
    case Opcode::Scatter:
    case Opcode::ScatterAdd: {
      const plan::Attribute& given = plan::attribute(node, "axis");
      int64_t axis = given.given ? plan::static_integer(plan, given.items[0]) : 0;
      if (axis < 0) axis += type(0).shape.rank();
      return fmt::format("index {} is outside axis {} of size {}", index_text(type(1), trap.value),
                         axis, trap.extra);
    }
    default: {
      const size_t classes = node.opcode == Opcode::CrossEntropyGrad ? 2 : 1;
      return fmt::format("index {} is outside the classes, of which there are {}",
                         index_text(type(classes), trap.value), trap.extra);
    }
  }
}

}  // namespace

std::string trap_words(const plan::Plan& plan, const TrapRecord& trap) {
  const plan::Node& node = plan.nodes[trap.node];
  switch (static_cast<TrapCode>(trap.code)) {
    case TrapCode::DivideByZero:
      return fmt::format("element {} is divided by zero", trap.element);
    case TrapCode::NotFinite: {
      const auto value = std::bit_cast<double>(trap.value);
      const std::string_view what = value != value ? "NaN" : value > 0 ? "inf" : "-inf";
      return fmt::format("element {} is {}", std::max<int64_t>(trap.element, 0), what);
    }
    case TrapCode::Explicit:
      return plan.texts[plan::attribute(node, "message").items[0].index];
    case TrapCode::InvalidArgument:
      if (node.opcode == Opcode::Loop) return "a loop with step 0 does not end";
      if (isa::info(node.opcode).attribute("step") >= 0)
        return fmt::format("step is {}: steps count from 1", trap.value);
      if (const auto p = std::bit_cast<double>(trap.value); p == p)
        return fmt::format("p is {}, outside 0 <= p < 1", p);
      return "p is nan, outside 0 <= p < 1";
    case TrapCode::IndexOutOfRange:
      return outside(plan, node, trap);
    case TrapCode::None:
      break;
  }
  return "";
}

}  // namespace trek::resident
