// How a matrix product is computed, which tilings are worth considering for it on a device, and which of these
// is chosen.
//
//   const ProductWork work = product_work(plan, node);
//   for (const MatrixTiles& tiles : candidates(plan.device, work)) estimate(plan.device, work, tiles);
//   choose(plan.device, work);  // the one of the least estimate
#pragma once

#include <optional>
#include <vector>

#include "emulator/plan/geometry.h"

namespace trek::plan {

enum class Product : uint8_t {
  ordered,  // by the dot order, in parts as the unit likes
  tensor,   // fast: by tensor cores, in parts of kPartRows × part_columns
  thin,     // by the dot order, of at most kThinRows rows
  small,    // fast: by tensor cores, of 16 bits, of any lines, where little has to be done
  narrow,   // by the dot order, of f32, of at most kNarrowColumns columns
  shallow,  // by the dot order, of f32, of at most kShallowDepth k
};
std::string_view name(Product product);
inline constexpr int64_t kPartRows = 128;
// What a `thin` product has at most: rows and k.
inline constexpr int64_t kThinRows = 4;
inline constexpr int64_t kThinDepth = 4096;
// What a `narrow` product has at most: columns and k, and outputs of a tile times blocks of 64 k; and a `shallow` one: k, and
// rows and columns of a tile.
inline constexpr int64_t kNarrowColumns = 16;
inline constexpr int64_t kNarrowDepth = 4096;
inline constexpr int64_t kNarrowSums = int64_t{16} * 1024;
inline constexpr int64_t kShallowDepth = 16;
inline constexpr int64_t kShallowRows = 512;
inline constexpr int64_t kShallowColumns = 1024;
// What a tile of a `small` one has, in rows and in columns; and bytes of its operands, with its sums, of which all k come at
// once where code is made for it.
inline constexpr int64_t kSmallLines = 128;
inline constexpr int64_t kSmallBytes = int64_t{162} * 1024;
// And a node of several thin ones: products, outputs of a tile, where those of a product are as many as of each of a
// power of two of products, and bytes of a tile's right operands.
inline constexpr int64_t kGroupProducts = 4;
inline constexpr int64_t kGroupOutputs = 256;
inline constexpr int64_t kGroupBytes = int64_t{72} * 1024;
// Columns of a tile of a node with so many thin products, of `element` bytes an element, at most; 0: it would have
// no room.
int64_t group_columns(const MatrixShape& shape, int64_t products, int64_t element);

// Products of few rows of f32, f16 or bf16 are thin, but for those of 16 bits of odd lines that may be by tensor cores;
// narrow or shallow ones of f32 are so where their lines are multiples of 16 bytes, and not on a computer;
// others of these types by tensor cores under fast numerics, f32 as tf32, and of 16 bits small where that is
// thought to be sooner; the rest is ordered.
Product product_of(const Device& device, bool fast, isa::DType type, const MatrixShape& shape);
Product product_of(const Plan& plan, const Node& node);

// Whether a node is a product of two matrices of f32, all of them as they lie, and nothing else but a bias and its chain.
bool is_plain_product(const Plan& plan, const Node& node);

// Of which K of an ordered product is a multiple where a copy engine brings its operands.
inline constexpr int64_t kOrderedDepth = 8;

// What there is to know of a product before its tiles are chosen.
struct ProductWork {
  Product product = Product::ordered;
  isa::DType element{};  // of the right operand
  MatrixShape shape;
  int64_t share = 1;       // processors that its tiles are for: Node::share
  bool copied = false;     // a copy engine brings both operands
  int64_t products = 1;    // of a node of thin ones
  bool group = false;      // it has several, or several results
  int64_t most_split = 1;  // nodes that may share its k
  bool may_run = false;    // its tiles' k may be cut into runs
};
ProductWork product_work(const Plan& plan, const Node& node);
// The same before it has been split, where its sums are f32: those may be of parts of k. Of at most kThinRows
// rows it is thin, whatever its k.
ProductWork whole_work(const Plan& plan, const Node& node);
// The k of each of so many nodes.
std::vector<Depth> depths_of(const ProductWork& work, int64_t split);

// Never empty. Each is legal for the product on this device, in any share of its processors.
std::vector<MatrixTiles> candidates(const Device& device, const ProductWork& work);
// What the product takes, in cycles of a processor: from where its first task begins to where its last one ends.
double estimate(const Device& device, const ProductWork& work, const MatrixTiles& tiles);
// The first of the candidates with the least estimate, of those that have a tile begin at row `first` of the product. None
// where there is none: of count 0.
MatrixTiles choose(const Device& device, const ProductWork& work, int64_t first = 0);

// How a product of one matrix is done sooner by two nodes: its first rows have tiles for all processors of its share, or
// for all so many times, and what would leave most of these without work once more has smaller ones.
struct RowParts {
  int64_t first = 0;  // rows of the first node
  MatrixTiles of_first;
  MatrixTiles of_rest;
};
// Where that is worth a node more, instead of the tiles that were chosen for it.
std::optional<RowParts> divide_rows(const Device& device, const ProductWork& work,
                                    const MatrixTiles& chosen);

// Whether a product by tensor cores is done sooner on copies of those operands whose lines a copy engine cannot
// bring than on the operands as they are.
bool gains_by_padding(const Device& device, isa::DType element, const MatrixShape& shape);
// Which operands of a product of f32 are worth being turned around first: so that their k are neighbours, as tensor cores
// want them, where the unit that multiplies would turn each part of them as often as it is read; and by the dot order so
// that their lines are, since registers then stand in better order (device/README.md).
struct Turns {
  bool left = false;
  bool right = false;
};
Turns gains_by_turning(const Device& device, Product product, const isa::Type& left,
                       const isa::Type& right, const MatrixShape& shape);
// Whether one of 16 bits is done sooner as a small one than by the other ways.
bool gains_by_small(const Device& device, isa::DType element, const MatrixShape& shape);

// The steps of a choice: a product becomes one of Plan::products, which knows what it was chosen from, and gets its
// tiles: those that were measured, where there are some (false: there are none), or others.
class MeasuredTiles;
void note_product(Plan& plan, Node& node, bool is_whole);
ProductWork work_of(const Plan& plan, const ChosenProduct& product);
bool set_measured(Plan& plan, Node& node, const ProductWork& work, const MeasuredTiles* measured);
void set_tiles(Plan& plan, Node& node, const MatrixTiles& tiles);

// Chooses the tiles of all products that have none: Plan::tilings, those that were measured first. After share(), before
// tile().
void choose_tiles(Plan& plan, const MeasuredTiles* measured);

}  // namespace trek::plan
