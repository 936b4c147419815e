#include "emulator/plan/plan.h"

#include <algorithm>
#include <utility>

#include "isa/ops.h"

namespace trek::plan {

// Multiprocessors, shared memory of a block and copies of tensors: CUDA C++ Programming Guide, compute capabilities, and
// the makers' data sheets.
std::span<const Device> known_devices() {
  const auto device = [](std::string name, int processors, int64_t shared, int64_t memory,
                         bool copies_tensors) {
    Device made;
    made.name = std::move(name);
    made.processors = processors;
    made.shared_bytes = shared << 10;
    made.memory_bytes = memory << 30;
    made.copies_tensors = copies_tensors;
    return made;
  };
  static const std::array<Device, 5> kDevices{
      Device{}, device("h200", 132, 227, 140, true), device("h100", 132, 227, 79, true),
      device("a100", 108, 163, 79, false), device("one", 1, 227, 1024, false)};
  return kDevices;
}

const Device* find_device(std::string_view name) {
  for (const Device& device : known_devices())
    if (device.name == name) return &device;
  return nullptr;
}

std::string_view name(Pairing pairing) {
  constexpr std::array<std::string_view, 3> kNames{"", "depth", "columns"};
  return kNames[static_cast<size_t>(pairing)];
}

std::string_view name(Unit unit) {
  constexpr std::array<std::string_view, 8> kNames{"matrix", "vector", "reduce",    "move",
                                                   "order",  "random", "optimizer", "control"};
  return kNames[static_cast<size_t>(unit)];
}

std::string_view name(RegionKind kind) {
  constexpr std::array<std::string_view, 6> kNames{"root", "loop", "while", "rest", "if", "else"};
  return kNames[static_cast<size_t>(kind)];
}

bool may_trap(const MicroStep& step) {
  return !isa::info(step.opcode).traps.empty() && !isa::is_real(step.from);
}

size_t Node::steps() const {
  size_t all = prologue.size() + chain.size();
  for (const Phase& phase : phases) all += phase.elements.size() + phase.tail.size();
  return all;
}

bool Plan::encloses(uint32_t outer, uint32_t inner) const {
  while (inner != kNone && regions[inner].depth > regions[outer].depth)
    inner = regions[inner].parent;
  return inner == outer;
}

uint32_t Plan::common_loop(uint32_t a, uint32_t b) const {
  while (a != kNone && !(regions[a].is_loop() && encloses(a, b))) a = regions[a].parent;
  return a;
}

bool overlap(const Box& a, const Box& b) {
  if (a.empty() || b.empty() || a.end() <= b.begin || b.end() <= a.begin) return false;
  if (a.rows == 1 && b.rows == 1) return true;
  // Of different strides the hulls decide; a single row joins the stride of the other.
  const int64_t stride = a.rows > 1 ? a.stride : b.stride;
  if (a.rows > 1 && b.rows > 1 && a.stride != b.stride) return true;
  const Box& lower = a.begin <= b.begin ? a : b;
  const Box& upper = a.begin <= b.begin ? b : a;
  const int64_t row = (upper.begin - lower.begin) / stride;
  const int64_t column = (upper.begin - lower.begin) % stride;
  // A box that wraps around the end of a row is no rectangle of this stride.
  if (lower.row_bytes > stride || column + upper.row_bytes > stride) return true;
  return row < lower.rows && column < lower.row_bytes;
}

bool covers(const Box& outer, const Box& inner) {
  if (inner.empty()) return true;
  if (outer.rows == 1) return outer.begin <= inner.begin && inner.end() <= outer.end();
  if (inner.rows > 1 && inner.stride != outer.stride) return false;
  const int64_t ahead = inner.begin - outer.begin;
  if (ahead < 0) return false;
  const int64_t row = ahead / outer.stride;
  return row + inner.rows <= outer.rows &&
         ahead % outer.stride + inner.row_bytes <= outer.row_bytes;
}

}  // namespace trek::plan
