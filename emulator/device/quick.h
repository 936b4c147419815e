// Quick nodes: pointwise ones whose steps are all simple and whose scalars are constants or 32-bit numbers in
// memory. They are what most tasks of a network are beside products, and cannot trap.
//
// This path has no call, no context and no sync before the work: what a call saves for its caller goes through
// the little first-level cache that is left beside the shared memory, and takes a microsecond; so would the
// general way of program.h, which does the same and more.
#pragma once

#include "emulator/device/program.h"

namespace trek::device {

namespace quick_detail {

using program_detail::Four;

// Where element `element` of the node is in an operand.
TREK_UNIT int64_t place_quick(const Node& node, Map map, int64_t element) {
  if (map.kind == Map::same) return element;
  return map.kind == Map::one ? 0 : place_by_magic(node, map, element);
}

// Four elements from `element` on, or that element four times.
TREK_UNIT Four load(const Node& node, const std::byte* arena, const Operand& from, int64_t element,
                    bool four) {
  const auto type = static_cast<DType>(from.dtype);
  const bool half = type == DType::bf16;
  const std::byte* at =
      arena + from.offset + (place_quick(node, from.map, element) << (half ? 1 : 2));
  if (four && from.map.kind != Map::one) return program_detail::load_in_line(at, type);
  const uint32_t one = half ? uint32_t{*reinterpret_cast<const Aliased<uint16_t>*>(at)} << 16
                            : *reinterpret_cast<const Aliased<uint32_t>*>(at);
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

TREK_UNIT Four value(const Task& task, const Node& node, const std::byte* arena, Source source) {
  if (source.kind == Source::slot)
    return program_detail::get(task, {program_detail::slot_at(task, source.index), false});
  const Scalar& scalar = node.scalar(source.index);
  const uint32_t one = scalar.kind == Scalar::constant
                           ? static_cast<uint32_t>(scalar.value)
                           : *reinterpret_cast<const Aliased<uint32_t>*>(arena + scalar.value);
  return {{one, one, one, one}};
}

TREK_UNIT Four step(const Task& task, const Node& node, const std::byte* arena, const Step& of) {
  const auto opcode = static_cast<Opcode>(of.opcode);
  const Four x = value(task, node, arena, of.inputs[0]);
  const Four y = of.inputs[1].kind == Source::none ? x : value(task, node, arena, of.inputs[1]);
  const Four z = of.inputs[2].kind == Source::none ? x : value(task, node, arena, of.inputs[2]);
  return program_detail::apply_simple(opcode, static_cast<DType>(of.to), x, y, z);
}

}  // namespace quick_detail

// The elements [first, first + count) of a node that is quick. A sync before others read them is the caller's.
TREK_UNIT void run_quick(const Block& block, const Node& node, int64_t first, int64_t count,
                         std::byte* arena) {
  using namespace quick_detail;  // NOLINT(google-build-using-namespace)
  using program_detail::put;
  using program_detail::slot_at;
  const Task task(block);
  const Program& program = node.deliver[0];
  const Operand& to = node.result(0);
  const auto type = static_cast<DType>(to.dtype);
  const uint32_t steps = program.steps;
  const uint32_t loads = program.loads;
  const bool aligned = program.flat != 0 && (first & 3) == 0;
  const auto end = static_cast<uint32_t>(count);  // of a tile: less than 2^32
  for (uint32_t p = 4 * task.thread(); p < end; p += 4 * task.threads()) {
    const bool four = aligned && p + 4 <= end;
    for (uint32_t q = p; q < (four ? p + 1 : p + 4) && q < end; ++q) {
      const int64_t element = first + q;
      TREK_ROLLED
      for (uint32_t l = 0; l < loads; l += 2) {
        const Load& a = *node.load(program.first_load + l);
        const Four x = load(node, arena, node.operand(a.operand), element, four);
        if (l + 1 < loads) {
          const Load& b = *node.load(program.first_load + l + 1);
          put(task, slot_at(task, b.slot),
              load(node, arena, node.operand(b.operand), element, four));
        }
        put(task, slot_at(task, a.slot), x);
      }
      const Step* at = node.step(program.first_step);
      TREK_ROLLED
      for (uint32_t s = 1; s < steps; ++s, ++at)
        put(task, slot_at(task, at->slot), step(task, node, arena, *at));
      // The last step gives the result, but where there is none.
      const Four result =
          steps > 0 ? step(task, node, arena, *at) : value(task, node, arena, program.result);
      store(arena + to.offset + element * size_of(type), type, result, four);
    }
  }
}

}  // namespace trek::device
