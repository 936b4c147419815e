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
// One of an instruction's attributes, or of the node's own, by its name; one that is not given has no items.
const Attribute& attribute(isa::Opcode opcode, const std::vector<Attribute>& attributes,
                           std::string_view name);
const Attribute& attribute(const Node& node, std::string_view name);
bool flag(const Node& node, std::string_view name);

// Whether a program reads operand `index` as an element.
bool reads(const std::vector<MicroStep>& program, uint32_t index);
// The shape of which a node's rows are lines along the last axis; of a product that makes its left operand's rows, these.
inline const isa::Shape& rows_of(const Node& node) {
  return node.by_rows() ? node.main_type.shape : node.operand_types[0].shape;
}

// Where in a tensor of shape `to` element `index` of what is put there lies.
int64_t put_index(const Put& put, const isa::Shape& to, int64_t index);

// The work for a logit of a loss, in elements of pointwise instructions.
inline constexpr int64_t kWorkOfLogit = 16;

// Elements of a copy engine's 16 bytes, of which lines must be multiples.
inline int64_t line_elements(isa::DType type) { return 16 / isa::byte_size(type); }
// Whether a `pad` puts lines of 16-bit elements into longer ones, multiples of line_elements(), and nothing else.
bool pads_lines(const Plan& plan, const Node& node);

// Boxes of so many lines of a matrix, and elements of each.
struct BoxSize {
  int64_t lines = 0;
  int64_t columns = 0;
  bool operator==(const BoxSize&) const = default;
};
// How a `permute` that turns matrices of elements of four bytes around is cut, in the result. No lines: it does not, or it is a
// small one, and is cut as other moves are.
BoxSize turned_boxes(const Plan& plan, const Node& node);
// Tiling::boxes: how many there are of a result of this shape, and where one lies in it, as a box in elements from its
// start.
int64_t count_of(const isa::Shape& shape, BoxSize boxes);
Box box_at(const isa::Shape& shape, BoxSize boxes, int64_t number);

// A matrix product: shapes without the batch, and how the batch of a result reads the operands. It sums the k
// [first_k, first_k + k) of the whole_k that its operands have; beyond these an operand may have longer lines,
// with zeros at their ends (split.h).
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
MatrixShape matrix_shape(const isa::Shape& a, const isa::Shape& b, const isa::Shape& out, bool ta,
                         bool tb);
MatrixShape matrix_shape(const Node& node);
// The same for some of its k.
inline void take_depth(MatrixShape& shape, Depth depth) {
  shape.first_k = depth.first;
  shape.k = depth.count;
}

// One of the products of a matrix node, of which it has products_of(node): its operands among the node's.
struct Factors {
  size_t right = 1;
  size_t bias = kNone;
  const std::vector<Attribute>* attributes = nullptr;
  isa::Type type;  // of the product, before the chain
};
inline size_t products_of(const Node& node) { return 1 + node.others.size(); }
Factors factors_of(const Node& node, size_t product);
// Whether a node has several products, or several results: it is then a thin one.
inline bool is_group(const Node& node) { return !node.gives.empty(); }

// Works out what follows from a tile's rows and columns.
void count_tiles(MatrixTiles& tiles, const MatrixShape& shape);
// The same for a node that gives some of the rows; of a single matrix, from a multiple of the tile's rows on.
void take_rows(MatrixTiles& tiles, const MatrixShape& shape, Rows rows);

// One tile: of batch `batch`, the rows [row, row + rows) and columns [column, column + columns).
struct MatrixTile {
  int64_t batch = 0;
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
};
MatrixTile matrix_tile(const MatrixShape& shape, const MatrixTiles& tiles, int64_t index);
Pairing pairing_of(const Plan& plan, const Node& node);
// The tile that works together with another, which is the first of both where its number is less; kNone: it is alone. Of a
// node of some of the rows its number among all of the product's tiles.
int64_t partner_of(const MatrixTiles& tiles, int64_t index);
// Rows that tiles are worked on together for: a node of some of the rows begins and, but for the last, ends at a multiple.
int64_t rows_together(const MatrixTiles& tiles);
// The rows of the left operand and the columns of the right one that a tile reads: its own, or those of a part whose k two
// tiles share.
MatrixTile tile_read(const MatrixShape& shape, const MatrixTiles& tiles, int64_t index);

// The row-major index in a tensor of shape `from` that element `index` of `to` reads under broadcasting.
int64_t broadcast_index(const isa::Shape& to, const isa::Shape& from, int64_t index);

}  // namespace trek::plan
