// A product of one row and a matrix of 16 bits (GEMV) under fast numerics, as a kernel on Hopper's level interprets it: all
// that a task is told, worked out once by who encodes tasks (gemv_of()). What executes it is in matrix_gemv.h. Host and device.
//
// A task is a tile of a thin product: some columns of one matrix. Its columns come in parts, each of some columns and k, to
// a ring of stages in shared memory: so many bytes that nothing writes are on their way to a processor long before the row
// is there. They lie there as tensor cores read them: where k are neighbours in memory a column a line, else by eights of
// columns, 16 bytes for each k. By eights they are not in memory, so a task leaves them there as they lie in a stage when
// it has first brought them; in that form a part is one copy.
#pragma once

#include <cstdint>

#include "emulator/device/matrix_thin_cut.h"
#include "emulator/device/word_places.h"

namespace trek::device {

namespace gemv {

using thin::kDeep;   // k of a step of tensor cores
using thin::kEight;  // columns of it
inline constexpr uint32_t kWarpBits = 3;
using thin::kWarps;
static_assert(kWarps == 1 << kWarpBits);
inline constexpr uint32_t kMostEights = 3;     // of a warp
inline constexpr uint32_t kMostColumns = 64;   // of a part
inline constexpr uint32_t kMostItems = 4;      // of a row, of a thread: two words each
inline constexpr uint32_t kMostNorm = 1024;    // elements of a row that is normed
inline constexpr uint32_t kMostSoftmax = 128;  // and of one that goes through a softmax
inline constexpr uint32_t kMostBeside = 2;     // operands of a tail
// A line of the columns that comes in words: these are asked for by so many threads at most, from the middle one on, where the
// row leaves them.
inline constexpr uint32_t kLineThreads = kBlockThreads / 2;
inline constexpr uint32_t kLinePad =
    16;  // bytes behind a column, so that lines begin in other banks

// Shared memory, behind what all units keep.
inline constexpr uint32_t kRow = 2 * 1024;  // the row, of 16 bits
inline constexpr uint32_t kSums =
    kRow + 2 * kThinDepth;  // [turn][column][share of k], of two parts in turn
inline constexpr uint32_t kSumsBytes = 4 * kMostColumns * kWarps;
inline constexpr uint32_t kWide = kSums + 2 * kSumsBytes;    // a row of f32 that is normed
inline constexpr uint32_t kMoments = kWide + 4 * kMostNorm;  // its mean, and by what it is scaled
inline constexpr uint32_t kHere = kMoments + 16;             // a row that the next task reads
// Columns that something writes.
inline constexpr uint32_t kPanel = (kHere + 4 * kMostSoftmax + 127) / 128 * 128;
inline constexpr uint32_t kStages = 4;
inline constexpr uint32_t kStage = 38 * 1024;
inline constexpr uint32_t kRing = kSharedBytes - kStages * kStage;
inline constexpr uint32_t kPanelBytes = kRing - kPanel;
static_assert(kPanel % 128 == 0 && kRing % 128 == 0 && kPanelBytes >= 16 * 1024);

}  // namespace gemv

// The ring, which stands from task to task: its barriers, and how many parts have been multiplied.
struct GemvRing {
  uint64_t full[gemv::kStages];
  uint64_t empty[gemv::kStages];
  uint32_t step;
  uint32_t unused;
};

// An operand of the tail: where what stands beside an output is.
struct alignas(16) GemvBeside {
  int64_t offset;
  uint32_t
      mask;  // of 32 bits that come, a float's; of one of 16 bits the upper ones; 0: there is none
  uint8_t by_column;
  uint8_t pair_bits;  // elements that come together: 1 << pair_bits
  uint8_t shift;      // bytes from what comes to the next: 1 << shift
  uint8_t in_words;
};
static_assert(sizeof(GemvBeside) == 16);
// A step of the tail: a TailStep, and what stands beside the value.
struct alignas(16) GemvTail {
  TailStep step;
  float scalar;
  uint8_t operand;  // the number of a GemvBeside, or gemv::kMostBeside
  uint8_t unused[3];
};
static_assert(sizeof(GemvTail) == 16);

struct alignas(16) Gemv {
  enum Row : uint8_t {
    memory,
    words,
    here,  // in shared memory, where the task before has left it
  };
  int64_t left;  // the row of the first matrix, or its words
  int64_t right;
  int64_t packed;  // the columns of all tiles as they lie in stages; Areas::kNone
  int64_t result;
  int64_t result_words;  // Areas::kNone
  int64_t scale;         // of a norm
  int64_t shift;
  int64_t outer;  // a result goes to (element / inner) * outer + element % inner
  // Of each matrix the line of its columns (a column, or a k) that the loop writes, in words: all else of them stands. Of
  // tiles that are one part.
  int64_t line_words;
  uint32_t written_line;
  uint32_t
      line_items;  // of a matrix's line or a tile's share of it: two words each; 0: no line is written
  uint32_t inner;
  uint32_t n;
  uint32_t k;
  uint32_t columns;      // of a tile
  uint32_t across;       // tiles of a matrix
  uint32_t left_matrix;  // bytes from one to the next
  uint32_t right_matrix;
  uint32_t pitch;  // bytes in memory from a column to the next, or from a k
  uint32_t line;   // of shared memory: the same from a column to the next
  uint32_t part_columns;
  uint32_t part_k;
  uint32_t items;  // of the row: two words, or eight bytes
  float safe;      // of a norm: what is added
  uint8_t row;     // Row
  uint8_t form;    // RowForm
  uint8_t type;    // DType of both factors
  uint8_t result_type;
  uint8_t by_line;     // k are neighbours
  uint8_t share_bits;  // warps that share the k of a column, and have a sum each: 1 << share_bits
  uint8_t tails;
  uint8_t streams;      // the columns come in stages, because nothing writes them
  uint8_t leaves_here;  // the result is the row of the processor's next task, which finds it here
  uint8_t adds;         // first steps of the tail, which add its operands in their order
  uint8_t besides;      // DType of what stands beside outputs and is no f32
  uint8_t unused;
  GemvBeside beside[gemv::kMostBeside];
  GemvTail tail[kMaxTail];
};
static_assert(sizeof(Gemv) == 256);

namespace gemv {

// A tile: where its columns are.
struct Tile {
  uint32_t matrix;
  uint32_t column;
  uint32_t columns;

  TREK_ON_DEVICE Tile(const Gemv& of, uint32_t number)
      : matrix(number < of.across ? 0
               : of.across == 1   ? number
                                  : number / of.across),
        column((number - matrix * of.across) * of.columns) {
    columns = of.n - column < of.columns ? of.n - column : of.columns;
  }
  // Of its columns, which lie by lines or by eights.
  TREK_ON_DEVICE uint32_t lines(const Gemv& of) const { return of.by_line != 0 ? columns : of.k; }
};
// A part of it, from the first on: next() is the one behind, where it is_there().
struct Part {
  uint32_t column = 0;  // in the tile
  uint32_t columns = 0;
  uint32_t first_k = 0;
  uint32_t k = 0;

  TREK_ON_DEVICE Part(const Gemv& of, const Tile& tile) { take(of, tile); }
  TREK_ON_DEVICE bool is_there(const Tile& tile) const { return column < tile.columns; }
  TREK_ON_DEVICE bool is_last_of_columns(const Gemv& of) const { return first_k + k == of.k; }
  TREK_ON_DEVICE void next(const Gemv& of, const Tile& tile) {
    first_k += k;
    if (first_k == of.k) {
      first_k = 0;
      column += columns;
    }
    if (is_there(tile)) take(of, tile);
  }
  // Where in a tile's packed columns it begins, in bytes, and how many these are.
  TREK_ON_DEVICE uint32_t packed_at(const Gemv& of) const {
    return 2 * (column * of.k + first_k * columns);
  }
  TREK_ON_DEVICE uint32_t bytes() const { return 2 * k * columns; }

 private:
  TREK_ON_DEVICE void take(const Gemv& of, const Tile& tile) {
    columns = tile.columns - column < of.part_columns ? tile.columns - column : of.part_columns;
    k = of.k - first_k < of.part_k ? of.k - first_k : of.part_k;
  }
};
// Of a matrix all tiles' packed columns are as many bytes as the matrix has.
TREK_ON_DEVICE inline int64_t packed_of(const Gemv& of, const Tile& tile) {
  return of.packed + 2 * (int64_t{tile.matrix} * of.n + tile.column) * of.k;
}
// Where element k of the row goes, in bytes. A step of it is two halves of 16, and a lane multiplies of one of them two elements
// and the two that are eight further on: these lie side by side.
TREK_ON_DEVICE inline uint32_t place_in_row(uint32_t k) {
  return k / kDeep * (2 * kDeep) + k % kDeep / (kDeep / 2) * kDeep + k % kEight / 2 * 8 +
         k % (kDeep / 2) / kEight * 4 + k % 2 * 2;
}

// Where the words of a tile's share of the line are that comes in words.
TREK_ON_DEVICE inline int64_t line_words_of(const Gemv& of, const Tile& tile) {
  const uint32_t elements = of.by_line != 0 ? tile.matrix * of.k : tile.matrix * of.n + tile.column;
  return of.line_words + int64_t{kWord} * (elements / 2);
}
// Its number among the lines of a tile, which if that does not have it is none of those.
TREK_ON_DEVICE inline uint32_t written_line_of(const Gemv& of, const Tile& tile) {
  if (of.line_items == 0) return UINT32_MAX;
  return of.written_line - (of.by_line != 0 ? tile.column : 0);
}

// What a task's record has as its count: whether its columns come in stages, and the number by which its processor knows
// that it has left them packed.
struct Count {
  static constexpr int64_t kNotInStages = 0;
  static constexpr int64_t kAsTheyLie = 1;  // by line
  static constexpr int64_t kPackedFrom = 2;
  static constexpr int64_t kNeverPacked = -1;  // by eights, with no room for them in memory
};

}  // namespace gemv

}  // namespace trek::device
