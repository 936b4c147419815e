// Matrix products of generated code: panels and tiles by the kernels of emulator/kernels, on the processor's own
// thread. Generated code asks for the sums of one part after the other (emulator/device/matrix_panels.h).
#include "emulator/jit/products.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "emulator/device/matrix_panels.h"
#include "emulator/kernels/kernel_level.h"
#include "emulator/kernels/panels.h"

namespace trek::jit {
namespace {

using device::kMostPanelSums;
using device::PanelPart;
using device::PanelProduct;
using isa::DType;
using kernels::Kernels;
using kernels::Panels;
using kernels::Side;

constexpr int64_t kBlockBytes = int64_t{8} * 1024 * 1024;  // of one operand, packed

const Kernels* kernels_here(std::string& why) {
  static const auto chosen = [] {
    std::pair<const Kernels*, std::string> made;
    made.first = kernels::choose_kernels(made.second);
    return made;
  }();
  why = chosen.second;
  return chosen.first;
}

// A product under way; it lies at the start of a processor's memory, the panels behind it.
class Multiplication {
 public:
  Multiplication(const Kernels& kernels, const PanelProduct& product)
      : kernels_(kernels),
        dtype_(static_cast<DType>(product.type)),
        lane_(static_cast<DType>(product.lane)),
        extent_{product.m, product.n, product.k} {
    Side left = {product.left, dtype_, product.left_line, product.left_k};
    Side right = {product.right, dtype_, product.right_line, product.right_k};
    // A matrix times a vector is that vector times the transposed matrix, whose lanes are then full.
    swapped_ = extent_.n == 1 && extent_.m > 1;
    if (swapped_) {
      std::swap(left, right);
      std::swap(extent_.m, extent_.n);
    }
    is_vector_ = extent_.m == 1 && left.k_stride == 1 && right.line_stride == 1 &&
                 isa::is_real(lane_) && extent_.k * isa::byte_size(lane_) <= kBlockBytes;
    if (is_vector_) {
      begin_vector(left, right);
      return;
    }
    panels_ = Panels(kernels, lane_, extent_, kBlockBytes);
    if (sizeof(*this) + 64 + static_cast<size_t>(panels_.scratch_bytes()) > device::kPanelBytes)
      std::abort();
    panels_.bind(left, right, memory());
    begin_step();
  }

  bool next(std::byte* sums, PanelPart& part) {
    const bool found = is_vector_ ? next_columns(sums, part) : next_tile(sums, part);
    if (swapped_) {
      std::swap(part.row, part.column);
      std::swap(part.m, part.n);
    }
    return found;
  }

 private:
  std::byte* memory() {
    return reinterpret_cast<std::byte*>(this) + (sizeof(*this) + 63) / 64 * 64;
  }

  // One row times a matrix whose rows lie one after the other: nothing is packed, the matrix is read once.
  void begin_vector(const Side& left, const Side& right) {
    kernels_.convert(memory(), lane_, left.data, dtype_, extent_.k);
    vector_.dtype = dtype_;
    vector_.lane = lane_;
    vector_.left = memory();
    vector_.right = right.data;
    vector_.k = extent_.k;
    vector_.stride = right.k_stride;
  }
  bool next_columns(std::byte* sums, PanelPart& part) {
    if (column_ == extent_.n) return false;
    const int64_t end = std::min<int64_t>(extent_.n, column_ + kMostPanelSums);
    part = {0, column_, 1, static_cast<uint32_t>(end - column_)};
    vector_.out = sums;
    if (extent_.k == 0)
      std::memset(sums, 0, size_t{part.n} * static_cast<size_t>(isa::byte_size(lane_)));
    kernels_.vector_matrix(vector_, column_, end);
    column_ = end;
    return true;
  }

  // Packs the next block and segment.
  bool begin_step() {
    if (step_ == panels_.steps()) return false;
    panels_.begin(step_++);
    for (int64_t i = 0; i < panels_.left_panels(); ++i) panels_.pack_left(i);
    for (int64_t i = 0; !panels_.keeps_right() && i < panels_.right_panels(); ++i)
      panels_.pack_right(i);
    parts_ = panels_.resident_parts();
    begin_part(0, 0);
    return true;
  }
  // A part of the left panels meets the right panel `right`.
  void begin_part(int64_t part, int64_t right) {
    part_ = part;
    right_ = right;
    left_ = panels_.left_panels() * part / parts_;
    left_end_ = panels_.left_panels() * (part + 1) / parts_;
  }
  bool next_tile(std::byte* sums, PanelPart& part) {
    for (;;) {
      if (left_ == left_end_) {
        const bool last = right_ + 1 == panels_.right_panels();
        if (!last || part_ + 1 < parts_)
          begin_part(last ? part_ + 1 : part_, last ? 0 : right_ + 1);
        else if (!begin_step())
          return false;
      }
      const int64_t left = left_++;
      if (panels_.multiply(left, right_, sums)) return give(panels_.tile(left, right_), sums, part);
    }
  }
  // The part has no columns that the result has not.
  bool give(const kernels::Tile& tile, std::byte* sums, PanelPart& part) const {
    const auto bytes = static_cast<size_t>(isa::byte_size(lane_));
    for (int64_t row = 1; tile.columns < tile.stride && row < tile.rows; ++row)
      std::memmove(sums + static_cast<size_t>(row * tile.columns) * bytes,
                   sums + static_cast<size_t>(row * tile.stride) * bytes,
                   static_cast<size_t>(tile.columns) * bytes);
    part = {tile.row, tile.column, static_cast<uint32_t>(tile.rows),
            static_cast<uint32_t>(tile.columns)};
    return true;
  }

  const Kernels& kernels_;
  DType dtype_;
  DType lane_;
  kernels::Extent extent_;
  bool swapped_ = false;
  bool is_vector_ = false;
  kernels::VectorTask vector_;
  int64_t column_ = 0;
  Panels panels_;
  int64_t step_ = 0;
  int64_t parts_ = 0;
  int64_t part_ = 0;
  int64_t right_ = 0;
  int64_t left_ = 0;
  int64_t left_end_ = 0;
};
static_assert(std::is_trivially_destructible_v<Multiplication>);
static_assert(kernels::kMostTile <= kMostPanelSums);

}  // namespace

bool has_kernels(std::string& why) { return kernels_here(why) != nullptr; }

std::vector<Outside> product_functions() {
  return {{"trek_product_begin", reinterpret_cast<void*>(&trek_product_begin)},
          {"trek_product_next", reinterpret_cast<void*>(&trek_product_next)}};
}

}  // namespace trek::jit

void trek_product_begin(const trek::device::PanelProduct* product, std::byte* memory) {
  std::string why;
  new (memory) trek::jit::Multiplication(*trek::jit::kernels_here(why), *product);
}

uint64_t trek_product_next(std::byte* memory, std::byte* sums, trek::device::PanelPart* part) {
  return reinterpret_cast<trek::jit::Multiplication*>(memory)->next(sums, *part) ? 1 : 0;
}
