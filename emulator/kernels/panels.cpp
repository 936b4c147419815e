#include "emulator/kernels/panels.h"

#include <algorithm>
#include <cstring>

#include "isa/semantics/dot.h"

namespace trek::kernels {
namespace {

using semantics::kDotBlock;
using semantics::kDotSegment;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace

int64_t panel_rows(int64_t m, int64_t most) {
  int64_t best = 1;
  int64_t best_cost = INT64_MAX;
  for (int64_t rows = most; rows >= 1; rows -= rows > 2 ? 2 : 1) {
    const int64_t cost = ceil_div(m, rows) * (rows + 1);
    if (cost < best_cost) {
      best = rows;
      best_cost = cost;
    }
  }
  return best;
}

Panels::Panels(const Kernels& kernels, DType lane, const Extent& extent, int64_t block_bytes)
    : kernels_(&kernels),
      lane_(lane),
      lane_bytes_(isa::byte_size(lane)),
      extent_(extent),
      shape_(kernels.matrix_shape(lane)),
      rows_(panel_rows(extent.m, shape_.most_rows)),
      segments_(std::max<int64_t>(1, ceil_div(extent.k, kDotSegment))) {
  const int64_t deep = round_up(std::min<int64_t>(extent.k, kDotSegment), kDotBlock);
  const int64_t lines =
      std::max<int64_t>(256, block_bytes / lane_bytes_ / std::max<int64_t>(kDotBlock, deep));
  m_block_ = std::min(extent.m, round_up(lines, rows_));
  n_block_ = std::min(extent.n, round_up(lines, right_width()));
  blocks_down_ = ceil_div(extent.m, m_block_);
  blocks_across_ = ceil_div(extent.n, n_block_);
  const int64_t height = round_up(m_block_, rows_);
  const int64_t width = round_up(n_block_, right_width());
  left_bytes_ = round_up(height * deep * lane_bytes_, 64);
  right_bytes_ = round_up(width * deep * lane_bytes_, 64);
  totals_bytes_ = segments_ == 1 ? 0 : height * width * lane_bytes_;
}

void Panels::bind(const Side& left, const Side& right, std::byte* memory) {
  left_ = left;
  right_ = right;
  memory_ = memory;
  n_end_ = 0;  // no right panels yet
}

void Panels::begin(int64_t step) {
  segment_ = step % segments_;
  const int64_t block = step / segments_;
  const int64_t n_begin = block / blocks_down_ * n_block_;
  keeps_right_ = segments_ == 1 && n_end_ > 0 && n_begin == n_begin_;
  n_begin_ = n_begin;
  m_begin_ = block % blocks_down_ * m_block_;
  m_end_ = std::min(extent_.m, m_begin_ + m_block_);
  n_end_ = std::min(extent_.n, n_begin_ + n_block_);
  k_begin_ = segment_ * kDotSegment;
  k_ = std::min<int64_t>(extent_.k - k_begin_, kDotSegment);
  left_panels_ = ceil_div(m_end_ - m_begin_, rows_);
  right_panels_ = ceil_div(n_end_ - n_begin_, right_width());
}

int64_t Panels::left_panel_bytes() const { return rows_ * round_up(k_, kDotBlock) * lane_bytes_; }
int64_t Panels::right_panel_bytes() const {
  return right_width() * round_up(k_, kDotBlock) * lane_bytes_;
}

int64_t Panels::resident_parts() const {
  return std::clamp<int64_t>(ceil_div(left_panels_ * left_panel_bytes(), kResidentBytes), 1,
                             left_panels_);
}

// A last right panel of few columns is one vector wide.
int64_t Panels::vectors_of(int64_t panel) const {
  const int64_t columns = n_end_ - n_begin_ - panel * right_width();
  return std::min(shape_.most_vectors, ceil_div(columns, shape_.lanes));
}

PackTask Panels::pack(const Side& side, int64_t first_line, int64_t end, int64_t width) const {
  PackTask task;
  task.source = side.data + (first_line * side.line_stride + k_begin_ * side.k_stride) *
                                isa::byte_size(side.dtype);
  task.dtype = side.dtype;
  task.lane = lane_;
  task.line_stride = side.line_stride;
  task.k_stride = side.k_stride;
  task.width = width;
  task.lines = std::min(width, end - first_line);
  task.k = k_;
  return task;
}

void Panels::pack_left(int64_t panel) const {
  PackTask task = pack(left_, m_begin_ + panel * rows_, m_end_, rows_);
  task.by_k = left_by_k();
  task.panel = memory_ + panel * left_panel_bytes();
  kernels_->pack_left(task);
}

void Panels::pack_right(int64_t panel) const {
  PackTask task =
      pack(right_, n_begin_ + panel * right_width(), n_end_, vectors_of(panel) * shape_.lanes);
  task.panel = memory_ + left_bytes_ + panel * right_panel_bytes();
  kernels_->pack_right(task);
}

bool Panels::multiply(int64_t left_panel, int64_t right_panel, std::byte* sums) const {
  TileTask task;
  task.lane = lane_;
  task.left = memory_ + left_panel * left_panel_bytes();
  task.right = memory_ + left_bytes_ + right_panel * right_panel_bytes();
  task.by_k = left_by_k();
  task.rows = rows_;
  task.vectors = vectors_of(right_panel);
  task.k = k_;
  task.out = sums;
  const int64_t elements = rows_ * task.vectors * shape_.lanes;
  const auto bytes = static_cast<size_t>(elements * lane_bytes_);
  if (k_ == 0) std::memset(sums, 0, bytes);
  kernels_->tile(task);
  if (segments_ == 1) return true;
  std::byte* total =
      memory_ + left_bytes_ + right_bytes_ +
      (left_panel * right_panels_ + right_panel) * rows_ * right_width() * lane_bytes_;
  if (segment_ == 0) {
    std::memcpy(total, sums, bytes);
  } else {
    kernels_->add(total, sums, lane_, elements);
  }
  if (segment_ + 1 < segments_) return false;
  std::memcpy(sums, total, bytes);
  return true;
}

Tile Panels::tile(int64_t left_panel, int64_t right_panel) const {
  Tile tile;
  tile.row = m_begin_ + left_panel * rows_;
  tile.column = n_begin_ + right_panel * right_width();
  tile.stride = vectors_of(right_panel) * shape_.lanes;
  tile.rows = std::min(rows_, m_end_ - tile.row);
  tile.columns = std::min(tile.stride, n_end_ - tile.column);
  return tile;
}

}  // namespace trek::kernels
