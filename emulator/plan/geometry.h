// Where the elements of a node's tiles lie: shared by the linker, which makes boxes of it, and the
// interpreter, which walks it.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "emulator/plan/plan.h"

namespace trek::plan {

// Lines along the axis or axes that a node reduces, scans or orders. Line l has n elements; element k of
// line l of a tensor of `shape` is at element(l, k).
struct Lines {
  int64_t lines = 1;
  int64_t n = 1;
  // Where the axes are neighbours: the tensor is [outer, n, inner], line o * inner + i.
  bool adjacent = true;
  int64_t outer = 1;
  int64_t inner = 1;
  // In general: dimensions and strides of the kept and of the summed axes, outermost first.
  struct Axis {
    int64_t size;
    int64_t stride;
  };
  std::vector<Axis> kept;
  std::vector<Axis> along;

  int64_t element(int64_t line, int64_t k) const { return at(kept, line) + at(along, k); }

 private:
  static int64_t at(const std::vector<Axis>& axes, int64_t index);
};

// Of a tensor of `shape` and the axes given, which may be negative.
Lines lines_of(const isa::Shape& shape, const std::vector<int64_t>& axes);
// The axes that a node's attribute `axis` names: every one where it is absent, none where it is empty.
std::vector<int64_t> axes_of(const Plan& plan, const Node& node);

// The trips of a loop whose counter is from, from + step, ... while it is before `until`; step is not 0.
uint64_t trips_of(int64_t from, int64_t until, int64_t step);

// A static number of an operand: a constant, or a number itself.
int64_t static_integer(const Plan& plan, Operand operand);
// An attribute of the node's row by its name; one that is not given has no items.
const Attribute& attribute(const Node& node, std::string_view name);
bool flag(const Node& node, std::string_view name);

// The work for a logit of a loss, in elements of pointwise instructions.
inline constexpr int64_t kWorkOfLogit = 16;

// A matrix product: shapes without the batch, and how the batch of a result reads the operands. It sums the k
// [first_k, first_k + k) of the whole_k that its operands have.
struct MatrixShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t first_k = 0;
  int64_t whole_k = 0;
  int64_t batches = 1;
  bool ta = false;
  bool tb = false;
  auto operator<=>(const MatrixShape&) const = default;
};
MatrixShape matrix_shape(const Node& node);

// Works out what follows from a tile's rows and columns.
void count_tiles(MatrixTiles& tiles, const MatrixShape& shape);

// One tile: of batch `batch`, the rows [row, row + rows) and columns [column, column + columns).
struct MatrixTile {
  int64_t batch = 0;
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
};
MatrixTile matrix_tile(const MatrixShape& shape, const MatrixTiles& tiles, int64_t index);

// The row-major index in a tensor of shape `from` that element `index` of `to` reads under broadcasting.
int64_t broadcast_index(const isa::Shape& to, const isa::Shape& from, int64_t index);

}  // namespace trek::plan
