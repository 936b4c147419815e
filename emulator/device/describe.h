// From a node of a plan to the descriptor that its unit reads. Host only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/device/node.h"
#include "emulator/plan/plan.h"

namespace trek::device {

// A tensor as the copy engine of a device sees it: what a driver makes a tensor map of. Three axes, innermost
// first; the elements of the first are neighbours. What is copied are boxes, whose rows in shared memory are swizzled where
// they have kTensorMapRow bytes and who reads them knows.
struct TensorMap {
  int64_t offset = 0;  // in the arena
  isa::DType dtype = isa::DType::none;
  bool as_tf32 = false;  // f32 that is rounded to tf32 on the way
  std::array<int64_t, 3> sizes{};
  std::array<int64_t, 2> strides{};  // bytes, of the second and the third axis: multiples of 16
  std::array<uint32_t, 3> box{};     // elements
  bool swizzled = false;
};
inline constexpr int64_t kTensorMapBytes = 128;
inline constexpr int64_t kTensorMapRow = 128;
// Behind the maps of a node whose blocks meet (Matrix::meets): a word that a launch is to find zeroed.
inline constexpr int64_t kMeetingBytes = 128;
inline constexpr uint32_t kTensorMapLines = 256;  // that a box has at most

struct Described {
  // The record: a Node at its start, to be kept 16-byte aligned wherever it is copied.
  std::vector<std::byte> bytes;
  // Regions of the plan whose loop counters the node reads: Environment::counters[i] is that of the
  // innermost trip of counter_regions[i].
  std::vector<uint32_t> counter_regions;
  // What the node's tasks need in the arena beside its buffers, for all of them at once, 256-byte aligned;
  // its offset is to be written with set_scratch(). 0: nothing.
  int64_t scratch_bytes = 0;
  // Tensor maps that the node's scratch begins with, in order: the engine has them made once it knows where
  // the arena lies. None where the device copies no tensors.
  std::vector<TensorMap> maps;
  // Whether it wants the full build of the units (block.h): f64 arithmetic, sums and products of integers.
  bool needs_full = false;
  // Why no unit can execute it, in a sentence; empty: one can.
  std::string refusal;

  const Node& node() const { return *reinterpret_cast<const Node*>(bytes.data()); }
  void set_scratch(int64_t offset) { reinterpret_cast<Node*>(bytes.data())->scratch = offset; }
};

// Describes node `node` of a plan that check_plan() accepts.
Described describe(const plan::Plan& plan, uint32_t node);

}  // namespace trek::device
