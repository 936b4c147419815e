// The dot order: in which order the products of a dot product meet.
//
// Blocks of 64 consecutive k: one accumulator starts at +0 and takes fma(a, b, accumulator) for each.
// 64 block sums, ascending, make a segment: the first starts it, the others are added. Segments are
// added likewise. Nothing is added to +0, so a lone block's sum is the result, its sign included; no
// product at all gives +0. Blocks are short enough for many to be worked on at once, segments let the
// blocks of a long product be split between workers.
//
// Dot is that rule said plainly, one product at a time. Engines may compute otherwise, and are tested
// against it.
#pragma once

#include "isa/semantics/target.h"

namespace trek::semantics {

inline constexpr int kDotBlock = 64;
inline constexpr int kDotSegment = 64 * kDotBlock;

template <Float C>
class Dot {
 public:
  // The sums of a number of whole blocks: of the segment at hand, and of those before.
  struct Begun {
    C segment;
    C total;
  };

  TREK_TARGET Dot() = default;
  // Goes on behind so many products.
  TREK_TARGET Dot(Begun from, std::int64_t count)
      : segment_(from.segment),
        total_(from.total),
        count_(count),
        segment_begun_(count % kDotSegment != 0),
        total_begun_(count >= kDotSegment) {}
  TREK_TARGET Begun begun() const { return {segment_, total_}; }

  TREK_TARGET void push(C a, C b) {
    block_ = fma(a, b, block_);
    if (++count_ % kDotBlock == 0) end_block();
    if (count_ % kDotSegment == 0) end_segment();
  }

  TREK_TARGET C finish() {
    if (count_ % kDotBlock != 0) end_block();
    if (count_ % kDotSegment != 0) end_segment();
    return total_;
  }

 private:
  TREK_TARGET void end_block() {
    segment_ = segment_begun_ ? segment_ + block_ : block_;
    segment_begun_ = true;
    block_ = C(0);
  }
  TREK_TARGET void end_segment() {
    total_ = total_begun_ ? total_ + segment_ : segment_;
    total_begun_ = true;
    segment_begun_ = false;
  }

  C block_ = C(0);
  C segment_ = C(0);
  C total_ = C(0);
  std::int64_t count_ = 0;
  bool segment_begun_ = false;
  bool total_begun_ = false;
};

}  // namespace trek::semantics
