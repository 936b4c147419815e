// Rows on their way to the registers of warps, by copies to shared memory that take none themselves (cp.async). Device
// only.
//
// A warp has a tile of the reduction order (1024 elements, of which lane j has every 32nd from j on), so a row has as
// many warps as tiles, its team, and the block as many teams as it has warps for; a team's rows are as many apart. A warp
// copies its own tile, in pieces of 16 bytes, to places of its own, and waits for it by itself: no barrier is needed, and
// two rows of a team are on their way while one is worked on.
#pragma once

#ifdef __CUDA__

#include "emulator/device/copies.h"
#include "emulator/device/rows.h"

namespace trek::device::rows {

inline constexpr uint32_t kOfTile = kTile / 32;  // elements of a lane
// Named barriers of teams, of at least two warps each: as many as a block may have teams, behind those of the kernel.
inline constexpr uint32_t kFirstBarrier = 3;
static_assert(kFirstBarrier + kMostBlockThreads / 64 <= 16);

// Which tile of its team's rows a warp has.
struct Part {
  TREK_ON_DEVICE Part(const Task& task, uint32_t row_n)
      : n(row_n),
        tiles((row_n + kTile - 1) / kTile),
        rows(team() / tiles),
        lane(task.thread() % 32) {
    warp = task.thread() / 32;
    row = warp / tiles;
    first = (warp - row * tiles) * kTile;
    length = n - first < kTile ? n - first : kTile;
  }
  TREK_ON_DEVICE bool has_row() const { return row < rows; }
  TREK_ON_DEVICE void sync() const {
    if (tiles > 1) meet(kFirstBarrier + row, 32 * tiles);
  }
  // Code that is made for one n knows where all tiles are whole.
  TREK_ON_DEVICE bool has(uint32_t i) const { return n % kTile == 0 || lane + 32 * i < length; }

  uint32_t n;
  uint32_t tiles;  // of a row
  uint32_t rows;   // of the block at once
  uint32_t lane;
  uint32_t warp;
  uint32_t row;     // of those
  uint32_t first;   // element of the row
  uint32_t length;  // elements
};

struct Tile {
  float x[kOfTile];
};

// The places of a block's warps, two of each: of two rows of one operand, or of a row of two.
inline constexpr uint32_t kPlaces = 2;
inline constexpr uint32_t kPlaceBytes = 4 * kTile;
inline constexpr uint32_t kRingBytes = kTeam * kPlaces * kPlaceBytes;  // of the largest block

TREK_TILE void warp_meets() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

// Whether an operand's rows of n elements are copied in pieces of 16 bytes, or at all: else in words.
TREK_UNIT bool lies_in_pieces(const Operand& from, uint32_t n) {
  return n * size_of(static_cast<DType>(from.dtype)) % 16 == 0 && from.offset % 16 == 0;
}
TREK_UNIT bool can_be_copied(const Operand& from, uint32_t n) {
  return size_of(static_cast<DType>(from.dtype)) == 4 || lies_in_pieces(from, n);
}

// What a warp has of one operand: `rows` tiles on their way at most, in its places from number `place` on.
class TileRing {
 public:
  // `type` is the operand's.
  TREK_ON_DEVICE TileRing(const Task& task, const Part& part, const Operand& from, DType type,
                          uint32_t at, uint32_t place, uint32_t rows)
      : part_(part),
        memory_(task.memory(from)),
        type_(type),
        at_(at + (part.warp * kPlaces + place) * kPlaceBytes),
        rows_(rows),
        in_pieces_(lies_in_pieces(from, part.n)) {}

  // Asks for the tile of row `row`, the team's number `turn`; by all lanes.
  TREK_TILE_MEMBER void ask(const Task& task, int64_t row, uint32_t turn) const {
    const uint32_t size = size_of(type_);
    const std::byte* from = memory_ + (row * part_.n + part_.first) * size;
    const uint32_t to = shared_address(task.shared<std::byte>(place(turn)));
    if (in_pieces_) {
      TREK_UNROLLED
      for (uint32_t p = 0; p < kPlaceBytes; p += 32 * 16) {
        const uint32_t piece = p + 16 * part_.lane;
        const bool is_whole = part_.n % kTile == 0;
        if (p < kTile * size && (is_whole || piece < part_.length * size))
          copy_ahead<16>(to + piece, from + piece);
      }
      return;
    }
    TREK_ROLLED
    for (uint32_t p = 4 * part_.lane; p < 4 * part_.length; p += 32 * 4)
      copy_ahead<4>(to + p, from + p);
  }
  // Of a tile that has arrived: element i, and what a lane has.
  TREK_TILE_MEMBER float one(const Task& task, uint32_t turn, uint32_t i) const {
    return as_float(load32(task.shared<const std::byte>(place(turn)), type_, i));
  }
  TREK_TILE_MEMBER Tile tile(const Task& task, uint32_t turn) const {
    Tile tile;
    TREK_UNROLLED
    for (uint32_t i = 0; i < kOfTile; ++i)
      tile.x[i] = part_.has(i) ? one(task, turn, part_.lane + 32 * i) : 0.0f;
    return tile;
  }

 private:
  TREK_TILE_MEMBER uint32_t place(uint32_t turn) const {
    return at_ + (rows_ == 1 ? 0 : turn % kPlaces * kPlaceBytes);
  }
  const Part& part_;
  const std::byte* memory_;
  DType type_;
  uint32_t at_;
  uint32_t rows_;
  bool in_pieces_;
};

}  // namespace trek::device::rows

#endif  // __CUDA__
