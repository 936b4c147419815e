// A matrix product as panels and tiles, for whoever has threads: which lines become which panel, how far k goes, and
// the way from two panels to the sums of a tile.
//
// The result is cut into blocks whose panels have room, and K into segments, the unit of the dot order. A *step* is
// a block and a segment. In each, all left and right panels are packed, in any order and on any threads; then the
// tiles are multiplied, in any order and on any threads. Sums of earlier segments wait in memory.
#pragma once

#include "emulator/kernels/kernels.h"

namespace trek::kernels {

// One matrix, seen from the lines (rows of the left operand, columns of the right one) that are multiplied. One of
// the strides, which count elements, is 1.
struct Side {
  const std::byte* data = nullptr;
  DType dtype = DType::none;
  int64_t line_stride = 0;
  int64_t k_stride = 0;
};

// What is multiplied: m lines by n lines of k elements.
struct Extent {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

// A tile's place in the result: `rows` and `columns` of it exist, rows of its sums lie `stride` apart.
struct Tile {
  int64_t row = 0;
  int64_t column = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
};

inline constexpr int64_t kMostTile = 448;  // elements of a tile of any level: 14 rows of 32
inline constexpr int64_t kResidentBytes = 655'360;  // of left panels that stay in a cache

// Panels whose rows add up to as little more than `m` as may be; a taller one is a little better.
int64_t panel_rows(int64_t m, int64_t most);

class Panels {
 public:
  Panels() = default;
  // Packed panels of one operand have about block_bytes at once, or those of 256 lines.
  Panels(const Kernels& kernels, DType lane, const Extent& extent, int64_t block_bytes);

  int64_t scratch_bytes() const { return left_bytes_ + right_bytes_ + totals_bytes_; }
  // Whose lines are packed, to which memory: scratch_bytes() of 64-byte alignment.
  void bind(const Side& left, const Side& right, std::byte* memory);

  int64_t steps() const { return blocks_down_ * blocks_across_ * segments_; }
  void begin(int64_t step);
  int64_t left_panels() const { return left_panels_; }
  int64_t right_panels() const { return right_panels_; }
  // Whether the step's right panels are those of the step before.
  bool keeps_right() const { return keeps_right_; }
  void pack_left(int64_t panel) const;
  void pack_right(int64_t panel) const;
  // Left panels go in so many parts: a part stays in a cache and meets all right panels before the next one comes.
  int64_t resident_parts() const;

  // The sums of the tile of two panels at `sums`, room for kMostTile elements of the lane type; false in all
  // segments but the last, where they are not yet whole.
  bool multiply(int64_t left_panel, int64_t right_panel, std::byte* sums) const;
  Tile tile(int64_t left_panel, int64_t right_panel) const;

 private:
  int64_t right_width() const { return shape_.most_vectors * shape_.lanes; }
  int64_t vectors_of(int64_t panel) const;
  int64_t left_panel_bytes() const;
  int64_t right_panel_bytes() const;
  PackTask pack(const Side& side, int64_t first_line, int64_t end, int64_t width) const;
  bool left_by_k() const { return left_.k_stride != 1; }

  const Kernels* kernels_ = nullptr;
  DType lane_ = DType::none;
  int64_t lane_bytes_ = 0;
  Extent extent_;
  MatrixShape shape_;
  int64_t rows_ = 1;  // of a left panel
  int64_t m_block_ = 0;
  int64_t n_block_ = 0;
  int64_t blocks_down_ = 0;
  int64_t blocks_across_ = 0;
  int64_t segments_ = 1;
  int64_t left_bytes_ = 0;
  int64_t right_bytes_ = 0;
  int64_t totals_bytes_ = 0;

  Side left_;
  Side right_;
  std::byte* memory_ = nullptr;

  // Of the step at hand.
  int64_t segment_ = 0;
  int64_t m_begin_ = 0;
  int64_t m_end_ = 0;
  int64_t n_begin_ = 0;
  int64_t n_end_ = 0;
  int64_t k_begin_ = 0;
  int64_t k_ = 0;
  int64_t left_panels_ = 0;
  int64_t right_panels_ = 0;
  bool keeps_right_ = false;
};

}  // namespace trek::kernels
