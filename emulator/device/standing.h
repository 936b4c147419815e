// What a task finds in memory before its inputs are there, so that it may be on its way while these are waited for: on all
// trips of its loop but the first (plan::Node::standing). Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/device/words.h"

namespace trek::device {

struct Standing {
  bool left = false;  // of a product's operands
  bool right = false;
  bool own = false;  // of a step all that it steps

  TREK_ON_DEVICE Standing(bool of_left, bool of_right, bool of_own)
      : left(of_left), right(of_right), own(of_own) {}
  TREK_ON_DEVICE Standing others() const { return {!left, !right, !own}; }
  TREK_ON_DEVICE explicit Standing(const Node& node) {
    if constexpr (kHasTags) {
      if (trek_is_first_trip()) return;
      left = node.matrix.left_stands != 0;
      right = node.matrix.right_stands != 0;
      own = node.matrix.own_stands != 0;
    }
  }
};

}  // namespace trek::device

#endif  // __CUDA__
