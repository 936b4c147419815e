// Windows: which part of an operand a tile of the result needs, as a range in each axis.
//
// The tile's elements are turned into the least window of the result that has them all; the instruction
// says which window of each operand that one reads (one axis of an operand follows one axis of the result,
// or is read whole); the operand's window is turned into a box. Every step may enlarge, none may lose an
// element. What is not known when linking, like an offset from a scalar, is the whole axis.
#pragma once

#include <array>

#include "emulator/plan/plan.h"

namespace trek::plan {

// In axis i the indices [low[i], high[i]); empty where that is empty for some axis.
struct Window {
  int rank = 0;
  std::array<int64_t, isa::kMaxRank> low{};
  std::array<int64_t, isa::kMaxRank> high{};
  bool empty() const;
};

// All of a tensor.
Window whole_window(const isa::Shape& shape);
// Of the elements of `part`, a box in elements from the tensor's start.
Window window_of(const isa::Shape& shape, const Box& part);
// A box in elements from the tensor's start that has all of the window.
Box box_of(const isa::Shape& shape, const Window& window);
// What a tensor of shape `from` gives to a window of one of shape `to` by broadcasting.
Window broadcast_window(const isa::Shape& to, const isa::Shape& from, const Window& window);
// What `update` writes where it reads this window of its patch.
Window updated_window(const Plan& plan, const Node& node, const Window& window);
// Where what is put into a tensor lies, of a window of it.
Window put_window(const Put& put, Window window);
// What operand i of an instruction of the move unit gives to a window of its result.
Window moved_window(const Plan& plan, const Node& node, size_t i, const Window& window);

}  // namespace trek::plan
