// The reduction order: in which order the elements of a sum, a product, a mean or a norm meet.
//
// Elements come in tiles of 1024. In a tile, element i joins partial i mod 32; then partials fold: j
// with j + 16, then 8, 4, 2, 1, an absent one skipped. The tile results are reduced by the same rule,
// until one is left. 32 partials are what a vector unit or a warp holds; the tree keeps the error
// small and lets tiles be worked on anywhere.
//
// Ordered is that rule said plainly, one element at a time. Engines may compute otherwise, and are
// tested against it.
#pragma once

#include "isa/semantics/target.h"

namespace trek::semantics {

inline constexpr int kPartials = 32;
inline constexpr int kReductionTile = 1024;

// Folds `present` partials (the first ones; at least 1) into partial[0].
template <typename C, typename Join>
TREK_FN void fold(C* partial, int present, Join join) {
  for (int half = kPartials / 2; half > 0; half /= 2) {
    for (int j = 0; j < half && j + half < present; ++j) {
      partial[j] = join(partial[j], partial[j + half]);
    }
    present = present < half ? present : half;
  }
}

// A reduction of elements given one by one.
template <typename C, typename Join>
class Ordered {
 public:
  TREK_TARGET explicit Ordered(Join join) : join_(join) {}

  TREK_TARGET void push(C x) {
    for (int level = 0; level < kLevels; ++level) {
      put(level, x);
      if (count_[level] < kReductionTile) return;
      x = close(level);
    }
  }

  // The result; `identity` if there was no element.
  TREK_TARGET C finish(C identity) {
    for (int level = 0; level < kLevels; ++level) {
      if (count_[level] == 0) continue;
      const bool last = !anything_above(level);
      const C result = close(level);
      if (last) return result;
      put(level + 1, result);
    }
    return identity;
  }

 private:
  static constexpr int kLevels = 6;  // 1024^6 elements

  TREK_TARGET void put(int level, C x) {
    C* partial = partials_[level];
    const int i = count_[level]++;
    partial[i % kPartials] = i < kPartials ? x : join_(partial[i % kPartials], x);
  }
  TREK_TARGET C close(int level) {
    fold(partials_[level], count_[level] < kPartials ? count_[level] : kPartials, join_);
    count_[level] = 0;
    return partials_[level][0];
  }
  TREK_TARGET bool anything_above(int level) const {
    for (int i = level + 1; i < kLevels; ++i) {
      if (count_[i] != 0) return true;
    }
    return false;
  }

  Join join_;
  C partials_[kLevels][kPartials] = {};
  int count_[kLevels] = {};
};

}  // namespace trek::semantics
