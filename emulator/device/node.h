// The descriptor of a node: all that a unit must know of it, worked out once by describe() on the host.
//
// A descriptor is a record of Node::bytes bytes, a Node and after it its tables. It holds no pointer:
// memory is offsets in the arena, tables are offsets from the Node's own address, so the record may be
// copied anywhere that is 16-byte aligned. Most records have 300 to 900 bytes; one that fits kNodeBytes
// can be kept in shared memory, and only instructions with very many operands (concat, clip_norm) make
// longer ones, which are read where they lie.
//
// Numbers that are known when the program is linked are in the descriptor; what a program computes
// (scalar registers, loop counters, params) is named by Scalar and read when a task begins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/device/block.h"
#include "isa/ops.h"

namespace trek::device {

using isa::DType;
using isa::Opcode;

inline constexpr uint32_t kNodeBytes = 1536;
inline constexpr uint32_t kMaxScalars = 120;  // of a node
inline constexpr int kMaxAxes = isa::kMaxRank;

// The unit that executes a node.
enum class Kind : uint8_t {
  program,  // pointwise, on tensors or scalars
  move,     // reshape, permute, slice, broadcast: an index map
  concat,
  pad,
  gather,
  fill,
  iota,
  one_hot,
  update,
  scatter,  // and scatter.add
  reduce,   // sum, mean, max, min, prod, norm2
  phases,   // rows through phases: plan::Phase
  arg,      // argmax, argmin
  softmax,  // softmax, log_softmax and their gradients
  cumsum,
  cross_entropy,  // all three
  clip,           // clip_norm
  order,          // sort, argsort, top_k
  permutation,
  matrix,
  optimizer,
  random,    // uniform, normal, bernoulli
  dropout,   // and its gradient
  exchange,  // load, store
  assert_finite,
  trap,
  engine,  // loop, test, if, emit, next: the engine's; operands and scalars are described
};

// Whether execute_quick() takes a node, and in what way.
enum class Quick : uint8_t {
  no,
  simple,  // quick.h
  calls,   // the same; some of its steps are called
  rows,    // quick_rows.h
  move,    // quick_move.h
};

// How Task::first and Task::count count; plan::Tiling.
enum class Tiling : uint8_t { elements, lines, matrix, boxes, whole };

// One axis of an index map. An index is taken apart from the last axis to the first:
// place += index % size × stride; index /= size. Division by `size` is by multiplication where indices
// have 31 bits: index × magic >> shift. magic 0: divide.
struct Axis {
  int64_t size;
  int64_t stride;
  uint32_t magic;
  uint32_t shift;
};

// Where in a tensor of its own the elements of another index space lie.
struct Map {
  enum Kind : uint8_t {
    same,  // at the index itself
    one,   // at 0
    axes,  // as the axes say
  };
  uint16_t first;  // of Node's axes
  uint8_t count;
  uint8_t kind;
};

// A tensor, or a scalar register in memory.
struct Operand {
  int64_t offset;    // in the arena
  int64_t elements;  // of a scalar 1
  uint8_t dtype;     // DType; none: the operand is absent, or is a scalar of `scalar`
  uint8_t scalar;    // index of the Scalar that gives it; kNoScalar where it is a tensor
  Map map;           // from the elements of the node to its own
  // Of several thin products, where it is a slice (plan::View::slice): 1 + the axis whose stride its elements are further on for
  // each that the counter of the loop counts (ThinGroup::counter); else 0.
  uint8_t slice;
  uint8_t unused;
};
inline constexpr uint8_t kNoScalar = 0xFF;
// Whether four elements from a multiple of four on can be copied at once, beside four of the result.
TREK_ON_DEVICE constexpr bool lies_in_fours(const Operand& operand) {
  return operand.map.kind == Map::same && operand.offset % 16 == 0;
}

// A number that is the same for a whole task, as `to` after a cast from `from`.
struct Scalar {
  enum Kind : uint8_t {
    constant,  // value: the number in register form (element.h), as `to` already
    memory,    // value: offset in the arena
    counter,   // value: index into Environment::counters
    listed,  // value: index in the list of addresses that code made for a node has, of two words (TREK_SPECIALISED)
  };
  int64_t value;
  uint8_t kind;
  uint8_t from;  // DType
  uint8_t to;
  uint8_t unused[5];
};

// Where a step of a program finds a value.
struct Source {
  enum Kind : uint8_t {
    none,
    main,    // what the node's own instruction gave; of a row node's elements those of a held array
    number,  // of a row node: what a phase gave for the row
    slot,    // a value of this program
    operand,  // the element of an operand of the node, by its map
    scalar,   // a Scalar of the node
  };
  uint8_t kind;
  uint8_t index;
};

// One instruction of a micro-program: it rounds its result to `to`, so fusing changes no bit.
struct Step {
  uint16_t opcode;  // Opcode
  uint8_t from;     // DType: what the row's T stands for
  uint8_t to;       // DType of the result
  Source inputs[3];
  Source numbers[2];  // its numeric attributes
  uint8_t slot;       // of its result
  uint8_t unused;
};

constexpr bool is_f32_or_16(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16;
}

// The commonest steps of networks: these a narrow program takes in lines of four, without a call.
constexpr bool is_simple(Opcode opcode, DType from, DType to) {
  switch (opcode) {
    case Opcode::Copy:
    case Opcode::Where:
      return true;
    case Opcode::Add:
    case Opcode::Sub:
    case Opcode::Mul:
    case Opcode::Maximum:
    case Opcode::Relu:
    case Opcode::ReluGrad:
    case Opcode::Fma:
      return is_f32_or_16(from) && is_f32_or_16(to);
    case Opcode::Cast:
      return (is_f32_or_16(from) || from == DType::u8 || from == DType::boolean) &&
             is_f32_or_16(to);
    default:
      return false;
  }
}

// A micro-program: gives one element from elements at the same place. In the narrow form every value has
// at most 32 bits and what it reads is loaded into slots first; the wide form takes any type.
struct Program {
  uint16_t first_step;  // of Node's steps
  uint8_t steps;
  uint8_t loads;  // narrow: [first_load, ...) of Node's loads
  uint16_t first_load;
  uint8_t slots;
  uint8_t narrow;
  Source result;  // where its value is at the end
  uint8_t dtype;  // of its value
  uint8_t
      flat;  // narrow: four elements from a multiple of four on are in line in all that it reads and writes
  uint8_t slow;  // narrow: a step is not is_simple()
  uint8_t
      summed;  // narrow: so many first loads, all f32 and of the node's own elements, are added by the first steps
  uint8_t direct;  // narrow: one simple step of one or two loads, such as those, and of constants
  uint8_t unused;
};
// A value that a narrow program has in a slot before its first step.
struct Load {
  uint8_t operand;
  uint8_t slot;
  // Of a recurrent step (emulator/resident/recurrent.h): 1 + which of the results of the step before it is; 0: none.
  uint8_t carried;
  uint8_t unused;
};

inline constexpr uint32_t kNarrowSlots = 6;
inline constexpr uint32_t kRowSlots = 8;        // of programs of a row node
inline constexpr uint32_t kNarrowElements = 4;  // that a thread has at once
inline constexpr uint32_t kWideSlots = 16;

// Arrays from this size on are more than caches hold, so what counts is how many loads are on their way.
inline constexpr int64_t kStreamed = 1 << 20;

inline constexpr uint32_t kShortRow = 128;
inline constexpr uint32_t kLongRow = 8 * 1024;

// Whether a reduction, argmax or argmin reads f32 or bf16 as it lies, by one stride (rows.h).
enum class Strided : uint8_t { no, elements, squares };
inline constexpr int64_t kMostTiles = 32;  // of 1024 elements, of a line of such a reduction

// How softmax and cross-entropy take their lines, on a device.
enum class Rows : uint8_t {
  staged,    // through shared memory (stage.h)
  by_warps,  // f32 as it lies, in rows of at most kShortRow: a warp or less each (rows.h)
  by_block,  // and of at most kLongRow: a warp for a tile of 1024 elements (long_rows.h)
  made,      // of a loss that makes its logits (made_rows.h)
};
// What such a loss has at most: classes, elements of the weights and of a row, and rows of a task.
inline constexpr uint32_t kMostClasses = 32;
inline constexpr uint32_t kMostWeights = 16 * 1024;
inline constexpr uint32_t kMostRow = 2048;
inline constexpr uint32_t kMostLossRows = 2;
// What it gives to the layer before (plan::Back).
enum class Back : uint8_t { none, plain, relu_grad };

// The lines of a reduction, a scan or a sort: element k of line l lies at kept(l) + along(k).
struct Lines {
  int64_t lines;
  int64_t n;
  Map kept;
  Map along;
  // Of the results, which have `kept_n` elements in each line: 1 of a reduction, n, or k of top_k.
  int64_t kept_n;
  Map result_kept;
  Map result_along;
  uint8_t across;   // neighbouring lines lie side by side, elements of a line do not
  uint8_t rows;     // Rows
  uint8_t strided;  // Strided
  uint8_t source;   // operand that a strided reduction reads
  int32_t stride;   // and how far its elements are apart
  // Of a loss that makes its logits: elements of a row of which they are made, the entry of operands that these rows are, with the
  // weights and, if there is one, the bias behind it, and what is given back.
  uint32_t row;
  uint8_t made_of;
  uint8_t has_bias;
  uint8_t back;  // Back
  uint8_t unused;
};

// A phase of a row node (plan::Phase). Its programs are narrow, and have kRowSlots.
struct Phase {
  enum Kind : uint8_t { reduction, numbers, keep };
  Program elements;  // gives what is reduced or kept
  Program tail;      // gives the row's number, from the reduction's result as its main value
  uint16_t opcode;   // Opcode of the reduction
  uint8_t kind;
  uint8_t result;  // of the node, which has the numbers; kNoResult
  uint8_t held;    // of what is kept: the array
  uint8_t unused[3];

  static constexpr uint8_t kNoResult = 0xFF;
};
inline constexpr uint32_t kMaxPhases = 6;
inline constexpr uint32_t kMostRowThreads = 512;  // of a kernel that is made for such nodes
inline constexpr uint32_t kMaxHeld = 2;
inline constexpr uint32_t kMaxColumns = 2;
inline constexpr uint32_t kColumnWords = 14 * 1024;  // of all together

// Rows that the resident kernel does not interpret (row_form.h).
enum class RowForm : uint8_t { none, norm, softmax };

// Rows of n elements, n from 2 to kLongRow, that go through phases and then, if `gives_elements`, through `last`: to
// result 0, or of a product to its left operand (matrix_thin_left.h). Elements that several programs read are held:
// those of operands, which are brought, then those that a phase keeps. What is the same for every row, an element a
// column (a scale, a shift), is brought once for a task. These are the programs' main values, columns from number
// kMaxHeld on.
struct Phases {
  Program last;
  int64_t rows;
  uint32_t n;
  uint8_t phases;
  uint8_t brought;
  uint8_t held;
  uint8_t gives_elements;
  uint8_t operand[kMaxHeld];  // that are brought
  uint8_t columns;
  uint8_t column[kMaxColumns];  // operands
  uint8_t columns_stay;         // nothing writes them
  uint8_t form;                 // RowForm, and of such rows:
  uint8_t form_type;            // DType: what elements are rounded to
  uint8_t scale;                // of a norm: operands
  uint8_t shift;
  uint8_t scales_stay;  // nothing writes them
  uint8_t unused[5];
  Phase phase[kMaxPhases];
};

// How a matrix product is computed; which one is the plan's choice (plan::Product).
enum class Product : uint8_t {
  ordered,  // by the dot order
  tensor,   // by tensor cores, in parts of kPartRows × part_columns
  thin,     // by the dot order, of at most kThinRows rows
  small,    // by tensor cores, a few outputs of a warp at a time
  narrow,   // by the dot order, of f32 of at most kNarrowColumns columns
  shallow,  // by the dot order, of f32 of at most kShallowDepth k
};

// Of an optimizer the most parts that it adds to a gradient; of a gradient that it makes the most k, if
// that is a product, or, if it is a sum, the elements of a task and the most lines.
inline constexpr uint32_t kMostParts = 5;
inline constexpr uint32_t kMostMade = 128;
inline constexpr uint32_t kMadePart = 16;  // of these k, that come together
inline constexpr uint32_t kSummed = 64;
inline constexpr uint32_t kMostSummed = 256;

// How two blocks work together on tiles (plan::Pairing).
enum class Pairing : uint8_t { none, depth, columns };

// What a node is of a product whose tiles' k are cut into runs (plan::OfRuns).
enum class OfRuns : uint8_t { none, begun, ended };
struct InRuns {
  uint16_t count;
  uint16_t first_row;    // of tiles, from which on all are the node's
  uint8_t part : 4;      // OfRuns
  uint8_t together : 4;  // runs that have the same k: 1, or of pairs of tiles 2
  uint8_t begun;         // of a node that ends tiles: the operand that has what was begun of them
  uint8_t split;         // nodes whose tiles are laid end to end, which k is divided between
  uint8_t segment;       // which of them this is
};

// A step of the deliver program of a product that is not ordered, as it is applied to sums in registers:
// value = opcode(value, second), in f32, rounded to `to`.
struct TailStep {
  enum Second : uint8_t {
    none,
    scalar,    // a Scalar of the node
    row,       // of an operand, the element of the column
    elements,  // of an operand, the element at the same place
  };
  uint16_t
      opcode;      // Opcode: Add, Mul, Relu, ReluGrad; Cast where only the rounding is wanted; of a
                   // thin product any of one operand and no attributes
  uint8_t to;      // DType: f32, f16, bf16
  uint8_t second;  // Second
  uint8_t index;   // of the scalar, of the operand
  uint8_t unused[3];
  TREK_ON_DEVICE bool reads_operand() const { return second == row || second == elements; }
};
inline constexpr uint32_t kMaxTail = 5;

inline constexpr uint32_t kPartRows = 128;
// Lines of an operand whose k are neighbours that the copy engine brings for a part of so many: no more than there are.
TREK_ON_DEVICE constexpr uint32_t lines_brought(int64_t lines, uint32_t part) {
  const int64_t there = (lines + 7) / 8 * 8;
  return there < part ? static_cast<uint32_t>(there) : part;
}

// What a `thin` product has at most: rows and k.
inline constexpr uint32_t kThinRows = 4;
inline constexpr uint32_t kThinDepth = 4096;
// How an f32 product divides a part of its tile; see matrix_cut.h. In bytes, but for bits.
struct CutSide {
  uint32_t step;        // in memory, from a row of its panels to the next; a row is a line or a k
  uint32_t group;       // in memory, from a block of k to the next
  uint32_t advance;     // in memory, from a stage to the next
  uint32_t pitch;       // in a panel, from a row to the next
  uint32_t bytes;       // from the panel of a group to the next
  uint32_t first;       // of the panels in a stage
  uint8_t row_bits;     // rows of a panel, 1 << row_bits
  uint8_t copies_bits;  // copies of a row
  uint8_t unit_bits;    // elements of a copy: 0 or 2
  uint8_t by_line;      // rows are lines: k are neighbours in memory
  uint32_t unused;
};
// A step of a tail that is kept in registers: what stands beside the value that the step before gave.
struct CutTail {
  enum Beside : uint8_t { nothing, operand, scalar };
  int64_t offset;  // of the operand in the arena
  int64_t row;     // its strides, in elements
  int32_t column;
  uint16_t opcode;
  uint8_t beside;
  uint8_t scalar_index;
  uint8_t second;  // the value is the step's second input
  uint8_t unused[7];
};
inline constexpr uint32_t kCutTails = 3;
struct Cut {
  CutSide left;
  CutSide right;
  uint32_t stage;         // of the panels of a stage
  uint32_t sums;          // where in shared memory lanes give sums to others
  uint32_t across_magic;  // number of a tile x across_magic >> across_shift: divided by `across`
  uint16_t groups;        // blocks of k at once
  uint8_t across_shift;
  uint8_t
      patch;  // outputs of a lane, 4 x 4 or 8 x 8, or another way (matrix_cut.h); 0: the product is not one of these
  uint8_t row_bits;     // rows of the part, at most 1 << row_bits: matrix_f32::part_rows()
  uint8_t column_bits;  // columns
  uint8_t depth_bits;   // k of a stage, 1 << depth_bits
  uint8_t ahead;        // stages in shared memory
  uint8_t plain;        // the deliver program is `tails` steps of tail[]
  uint8_t tails;
  uint8_t unused[10];
  CutTail tail[kCutTails];
};

// How a thin product divides its tiles (matrix_thin_cut.h). In bytes, but for counts.
struct Thin {
  uint32_t pitch;  // of memory, from a k to the next, or where k are neighbours from a column
  uint32_t row;    // of shared memory: of the elements of one k; where k are neighbours, of a block
  uint32_t bytes;  // of a part
  uint32_t panels;  // where in shared memory they are
  uint32_t sums;    // [block][row][column of the part] of float
  uint32_t part;    // columns of a part
  uint32_t k;
  uint32_t blocks;
  uint8_t rows;
  uint8_t ahead;    // parts that are on their way while one is multiplied
  uint8_t piece;    // of a copy: 16, 8 or 4; 2: elements one by one
  uint8_t by_line;  // k are neighbours
  uint8_t
      immutable;  // nothing writes the right operand: it may be asked for before the task's inputs are there
  uint8_t fours;   // the left operand is read in fours
  uint8_t copied;  // and copied as it lies
  uint8_t alone;   // a tile is one part, and a thread has one output of it or none
  uint8_t stays;   // the columns stay in shared memory, where the task says (matrix_thin_stays.h)
  uint8_t
      shares;  // of k, of each of which there is a sum, if tensor cores multiply (matrix_thin_tensor.h); else 0
  uint8_t in_fours;  // columns that stay: a block's sum is that of four, each of every fourth k
  uint8_t unused;
};

// Where the columns of a thin product stay in shared memory: which of kThinPlaces, and where it begins; whether the
// processor's next task has most often the same there; and the form of the task's node, which it shares with those that
// differ from it in addresses alone. It comes as the count of a task, which has one tile.
inline constexpr uint32_t kThinPlaces = 8;
inline constexpr uint32_t kPlaceStep = 128;
struct ThinPlace {
  int64_t count;
  static constexpr int64_t kFollowed = kPlaceStep / 2;
  TREK_ON_DEVICE uint32_t number() const {
    return static_cast<uint32_t>(count) % static_cast<uint32_t>(kFollowed);
  }
  TREK_ON_DEVICE uint32_t at() const {
    return static_cast<uint32_t>(count) / kPlaceStep * kPlaceStep;
  }
  TREK_ON_DEVICE bool is_followed() const { return (count & kFollowed) != 0; }
  static constexpr uint32_t kNoForm = 0;  // it differs from all others
  static constexpr int kFormAt = 32;
  TREK_ON_DEVICE uint32_t form() const { return static_cast<uint32_t>(count >> kFormAt); }
  TREK_ON_DEVICE bool is_same(ThinPlace other) const {
    return number() == other.number() && at() == other.at();
  }
};

// How a small product divides a tile (matrix_small_cut.h). Of an operand a *run* are its neighbours in memory: all k of
// a line, or all lines at one k. In bytes, but for counts.
struct Small {
  uint32_t ring;      // where in shared memory the first slot is; sums are in front of it
  uint32_t slot;      // of both operands at `depth` places of k
  uint32_t right;     // within a slot, where the right operand begins
  uint32_t left_run;  // of shared memory, from a run of the left operand to the next
  uint32_t right_run;
  uint32_t depth;  // places of k of a part, a multiple of 16
  uint32_t parts;
  uint8_t slots;  // 2 or 4
  uint8_t
      left_bits;  // lanes that bring a run, 1 << left_bits; all of the block's: all runs are one
  uint8_t right_bits;
  // Whether runs of an operand begin at multiples of 16 bytes, in memory as in shared memory.
  bool left_in_pieces : 1;
  bool right_in_pieces : 1;
};

// What a `narrow` product has at most: columns and k; and a `shallow` one: k, and rows and columns of a tile.
inline constexpr uint32_t kNarrowColumns = 16;
inline constexpr uint32_t kNarrowDepth = 4096;
inline constexpr uint32_t kShallowDepth = 16;
inline constexpr uint32_t kShallowRows = 512;
inline constexpr uint32_t kShallowColumns = 1024;
// How a narrow product brings a tile's operands, k by k part (matrix_narrow_cut.h). Where a line's k are neighbours, `line`
// is from a line to the next; else `line` is from a k to the next. In bytes of shared memory, but for counts.
struct NarrowSide {
  uint32_t line;
  uint32_t block;    // from 64 k to the next
  uint32_t pieces;   // of 16 bytes, of a line, or of a k's lines
  uint32_t by_line;  // k are neighbours
};
struct Narrow {
  NarrowSide left;
  NarrowSide right;
  uint32_t ring;      // where the first slot is; sums are in front of it
  uint32_t slot;      // of both operands at `depth` k
  uint32_t right_at;  // within a slot, where the right operand begins
  uint32_t depth;     // k of a part, a multiple of 64
  uint32_t parts;
  uint32_t all_columns;  // a thread has all columns of a line for a block of 64 k; 0: one of them
};

// What a node has in the arena besides its tensors: offsets, or kNone. Of a thin product, where code is made for it,
// vectors in words (matrix_thin_tags.h) and the columns of all tiles as they lie in shared memory (matrix_thin_packed.h);
// of a quick move its operand and its result in words (word_moves.h).
struct Areas {
  static constexpr int64_t kNone = -1;
  int64_t result;
  int64_t left;    // the left operand, or what its row is made of
  int64_t beside;  // what a tail reads at an output's element: of operand `beside_operand`
  int64_t packed;
  uint32_t beside_operand;
  uint32_t result_index;  // of the results the one in words
  // 1: what it reads is of the trip before, and on a loop's first trip not in words.
  uint32_t trips_before;
  // Where the words of `left` begin in the operand, in elements: of a move those of its box; of a product whose words are of
  // the trip before these are so many elements of its row, and nothing in the loop writes the others.
  uint32_t left_begin;
  uint32_t left_words;
  // Of a move: elements of a line of its operand's words and of its result's (place_in_patches()).
  uint32_t left_line;
  uint32_t result_line;
  uint32_t unused;
};

// What a thin product has besides that is several with one left operand, joined by a program (matrix_thin_group.h).
inline constexpr uint32_t kMaxProducts = 4;
inline constexpr uint32_t kGroupTail = 3;
inline constexpr uint32_t kGroupSteps = 12;
inline constexpr uint32_t kGroupLoads = 12;
inline constexpr uint32_t kGroupResults = 4;
struct ThinGroup {
  TailStep tail[kMaxProducts][kGroupTail];  // of each product, into its own type
  uint32_t panel;  // bytes of shared memory from the columns of a product to those of the next
  uint8_t tail_steps[kMaxProducts];
  uint8_t gives[kGroupResults];  // the slots of the results
  uint16_t first_step;           // of the program, whose slots are those of matrix_thin_group.h
  uint16_t first_load;
  uint8_t steps;
  uint8_t loads;
  uint8_t products;    // 0: it is one product
  uint8_t others;      // of the table of operands: the right operand of the second product
  uint8_t place_bits;  // of the number of an output: beside it stands that of the product
  uint8_t counter;     // 1 + the scalar that says which slices a trip has; 0: it has none
  uint8_t unused[2];
};

// How a thin product is divided up, and what is worked out of several.
struct ThinWork {
  Thin cut;
  ThinGroup group;
};

// A matrix product; strides are of elements, batches through the maps.
struct Matrix {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t tile_rows;
  int64_t tile_columns;
  int64_t down;  // tiles of a column of tiles
  int64_t across;
  int64_t a_row;  // strides
  int64_t a_k;
  int64_t b_k;
  int64_t b_column;
  int64_t a_matrix;  // elements of one matrix, what the maps count in
  int64_t b_matrix;
  Map a_batch;
  Map b_batch;
  Map result_rows;  // from batch × m + row, of elements
  Map result_columns;
  uint16_t part_columns;
  uint8_t product;     // Product
  uint8_t has_maps;    // tensor maps of both operands are at the node's scratch (describe.h)
  uint8_t tail_steps;  // of the result's conversion none is needed; kNoTail: by the deliver program
  uint8_t pairing;     // Pairing; with maps alone
  uint8_t operands_stay : 1;  // nothing writes them during a launch
  // Of a step of boxes: what its tasks find in memory before they wait (standing.h). Of the product's operands the left one,
  // the right one; and all that is stepped.
  uint8_t left_stands : 1;
  uint8_t right_stands : 1;
  uint8_t own_stands : 1;
  uint8_t has_boxes : 1;  // tensor maps of all that are at the node's scratch (boxes.h)
  uint8_t meets : 1;  // blocks meet before each of their tiles (matrix_ring_90a.h); with maps alone
  uint8_t transposed;  // parts are of part_columns rows by kPartRows columns; with maps alone
  TailStep tail[kMaxTail];
  InRuns runs;  // with maps alone

  static constexpr uint8_t kNoTail = 0xFF;
  union alignas(16) {
    Cut cut;        // of an ordered one
    ThinWork thin;  // of a thin one
    Small small;    // of a small one
    Narrow narrow;  // of a narrow one
  };
};

// Moves: what each reads is said in move.h.
struct Move {
  int64_t element_bytes;
  int64_t size;   // of the axis; where matrices are turned around, of a line of the result
  int64_t inner;  // elements after the axis; lines of a matrix of the result
  int64_t count;  // indices of a gather or a scatter; elements of a line of a task
  int64_t outer;  // lines of a task
  Map map;        // from the result, or from what is written
  uint16_t rank;
  uint8_t in_place;
  uint8_t
      quick_from;  // of a quick move the operands between whose places it moves the node's elements,
  uint8_t quick_to;  // each by its map
  uint8_t unused[7];
};

// A sort's place in the arena.
struct Order {
  int64_t tile;   // lines of a task
  int64_t block;  // lines between whose multiples tasks are cut anew
  uint8_t descending;
  uint8_t key_bits;  // of a key that matter: 8, 16, 32 or 64
  uint8_t unused[6];
};

struct alignas(16) Node {
  uint32_t bytes;     // of the record
  uint16_t opcode;    // Opcode of its own instruction
  uint8_t kind;       // Kind
  uint8_t tiling;     // Tiling
  uint8_t type;       // DType: T of its own instruction
  uint8_t compute;    // DType: that of its arithmetic
  uint8_t flag;       // nesterov, the reduction of a loss, a scalar operand: see the units
  uint8_t quick;      // Quick
  uint16_t operands;  // of its own; the table has more where programs read them
  uint16_t all_operands;
  uint16_t results;
  uint16_t scalars;
  uint16_t steps;
  uint16_t loads;
  uint16_t axes;
  uint16_t first_scalar;  // of its attributes, in the order that the unit states
  uint32_t operands_at;   // tables: bytes from the Node's address
  uint32_t results_at;
  uint32_t scalars_at;
  uint32_t steps_at;
  uint32_t loads_at;
  uint32_t axes_at;
  uint32_t numbers_at;  // int64_t: starts, strides and sizes of boxes, ends of concat's parts
  uint32_t numbers;
  uint32_t phases_at;  // Phases, of a node that has them; else 0
  uint32_t areas_at;   // Areas, where the encoder gave some; else 0
  uint32_t unused[2];
  int64_t whole;          // elements or lines of all, where the node is one task
  int64_t scratch;        // offset in the arena of Described::scratch_bytes; the engine sets it
  Program fetch[2];       // elements of operands 0 and 1 as `compute`
  Program deliver[2];     // from a main value to the result's element
  int64_t scratch_bytes;  // of one task
  union {
    Lines lines;
    Matrix matrix;
    Move move;
  };
  Order order;

  TREK_ON_DEVICE const Operand& operand(uint32_t i) const { return table<Operand>(operands_at)[i]; }
  TREK_ON_DEVICE const Operand& result(uint32_t i) const { return table<Operand>(results_at)[i]; }
  TREK_ON_DEVICE const Scalar& scalar(uint32_t i) const { return table<Scalar>(scalars_at)[i]; }
  TREK_ON_DEVICE const Step* step(uint32_t i) const { return table<Step>(steps_at) + i; }
  TREK_ON_DEVICE const Load* load(uint32_t i) const { return table<Load>(loads_at) + i; }
  TREK_ON_DEVICE const Axis* axis(uint32_t i) const { return table<Axis>(axes_at) + i; }
  TREK_ON_DEVICE int64_t number(uint32_t i) const { return table<int64_t>(numbers_at)[i]; }
  TREK_ON_DEVICE const Phases& phases() const { return *table<Phases>(phases_at); }
  TREK_ON_DEVICE const Areas& areas() const { return *table<Areas>(areas_at); }

 private:
  template <typename T>
  TREK_ON_DEVICE const T* table(uint32_t at) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(this) + at);
  }
};
// The programs of rows: elements of their phases, then tails, then the last.
inline constexpr uint32_t kRowPrograms = 2 * kMaxPhases + 1;
inline constexpr uint32_t kRowDeliver = 2 * kMaxPhases;
TREK_ON_DEVICE inline const Program& row_program(const Node& node, uint32_t which) {
  const Phases& of = node.phases();
  if (which == kRowDeliver) return of.last;
  return which < kMaxPhases ? of.phase[which].elements : of.phase[which - kMaxPhases].tail;
}
TREK_ON_DEVICE inline bool is_thin(const Node& node) {
  return static_cast<Kind>(node.kind) == Kind::matrix &&
         static_cast<Product>(node.matrix.product) == Product::thin;
}
// Whether an ordered product is by parts of f32 (matrix_f32.h): f32 throughout, in a program's narrow form.
TREK_ON_DEVICE inline bool is_in_f32_parts(const Node& node) {
  return static_cast<Product>(node.matrix.product) == Product::ordered &&
         node.matrix.cut.patch != 0 && node.deliver[0].narrow != 0;
}
// Whether a node is an optimizer that makes its gradient: from the operands behind its own, by `matrix`, of which k and n are
// said; and whether that is a product, of two operands, of boxes of the weights: then m, tile_rows, tile_columns and across
// are said, too (step_gradient.h).
TREK_ON_DEVICE inline bool makes_gradient(const Node& node) {
  return static_cast<Kind>(node.kind) == Kind::optimizer && node.matrix.k != 0;
}
TREK_ON_DEVICE inline bool steps_boxes(const Node& node) {
  return makes_gradient(node) && static_cast<Tiling>(node.tiling) == Tiling::boxes;
}
// Whether a node is a loss that makes its logits (made_rows.h).
TREK_ON_DEVICE inline bool makes_logits(const Node& node) {
  return static_cast<Kind>(node.kind) == Kind::cross_entropy &&
         static_cast<Rows>(node.lines.rows) == Rows::made;
}
// Whether a scalar of a node's is in memory, which is read before the unit is entered and which another task may still write
// until the task's inputs are there.
TREK_ON_DEVICE inline bool reads_scalars(const Node& node) {
  for (uint32_t i = 0; i < node.scalars; ++i)
    if (node.scalar(i).kind == Scalar::memory) return true;
  return false;
}
// Whether a node's unit waits for the task's inputs, in code that is made for it: a thin product's, behind having asked for
// weights, a small one's of operands that nothing writes, and a step of boxes, behind what stands in memory.
TREK_ON_DEVICE inline bool waits_itself(const Node& node) {
  const bool is_small = static_cast<Kind>(node.kind) == Kind::matrix &&
                        static_cast<Product>(node.matrix.product) == Product::small;
  return !reads_scalars(node) &&
         (is_thin(node) || steps_boxes(node) || (is_small && node.matrix.operands_stay != 0));
}
// Whether a node is a product of f32 by the dot order that is not thin, on a device; and whether its unit waits for the task's
// inputs where a kernel interprets, behind having found its tile: scalars are read behind the wait, so it has none.
TREK_ON_DEVICE inline bool is_in_order(const Node& node) {
  return static_cast<Kind>(node.kind) == Kind::matrix &&
         (static_cast<Product>(node.matrix.product) == Product::narrow || is_in_f32_parts(node));
}
TREK_ON_DEVICE inline bool waits_interpreted(const Node& node) {
  return is_in_order(node) && node.scalars == 0;
}
// Whether a node's unit waits for the task's inputs where a kernel interprets, behind having found what it has to do, and may
// trap.
TREK_ON_DEVICE inline bool is_early(const Node& node) {
  return (makes_gradient(node) || makes_logits(node)) && !reads_scalars(node);
}
// Whether a node is a quick move with words.
TREK_ON_DEVICE inline bool is_in_words(const Node& node) {
  return static_cast<Kind>(node.kind) == Kind::move && node.areas_at != 0;
}
// Whether code that is made for a node executes a task several times, if it is told to: what is over in a moment, and
// what is the same in every turn is little.
TREK_ON_DEVICE inline bool is_repeated(const Node& node) {
  const auto quick = static_cast<Quick>(node.quick);
  return (quick == Quick::simple || quick == Quick::calls || quick == Quick::move) &&
         node.result(0).elements < kStreamed;
}
// Whether a task of a node may trap, as far as its kind says.
TREK_ON_DEVICE inline bool may_trap(const Node& node) {
  return static_cast<Quick>(node.quick) == Quick::no && !is_thin(node) &&
         static_cast<Kind>(node.kind) != Kind::phases;
}
// Whether a node is a product that makes the rows of its left operand itself.
TREK_ON_DEVICE inline bool makes_left(const Node& node) {
  return static_cast<Kind>(node.kind) == Kind::matrix && node.phases_at != 0;
}
// Whether a node is a product whose operands have tensor maps.
TREK_ON_DEVICE inline bool is_copied(const Node& node) {
  return static_cast<Kind>(node.kind) == Kind::matrix && node.matrix.has_maps != 0;
}

static_assert(sizeof(Axis) == 24 && sizeof(Map) == 4 && sizeof(Operand) == 24);
static_assert(sizeof(CutSide) == 32 && sizeof(CutTail) == 32 && sizeof(Cut) == 192);
static_assert(sizeof(Thin) == 44 && sizeof(ThinGroup) == 120 && sizeof(Small) == 32);
static_assert(sizeof(Narrow) == 56 && sizeof(Areas) == 64);
static_assert(sizeof(Scalar) == 16 && sizeof(Step) == 16 && sizeof(Program) == 16);
static_assert(sizeof(Phase) == 40 && sizeof(Phases) == 288);
static_assert(sizeof(Lines) == 56 && sizeof(Matrix) == 368 && sizeof(Move) == 56);
static_assert(sizeof(TailStep) == 8 && sizeof(Node) == 576 && alignof(Node) == 16);
static_assert(offsetof(Node, fetch) % 16 == 0);  // quick.h reads tables of 16 bytes a row at once

}  // namespace trek::device
