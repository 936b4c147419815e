// The columns of a GEMV (gemv.h) in shared memory: brought to the ring of stages ahead of the block by a warp of the frame,
// or by the block itself, on a first trip and where something writes them. Hopper's level only, where a kernel interprets.
#pragma once

#include "emulator/device/copies.h"
#include "emulator/device/gemv.h"
#include "emulator/device/ring.h"
#include "emulator/device/tensor_core.h"

namespace trek::device::gemv {

#ifdef TREK_FOR_CHAINS

TREK_TILE GemvRing& ring() {
  return *reinterpret_cast<GemvRing*>(memory_of_units + tensor::Ring90::kGemvAt);
}
TREK_TILE uint32_t full(uint32_t step) { return shared_address(ring().full + step % kStages); }
TREK_TILE uint32_t empty(uint32_t step) { return shared_address(ring().empty + step % kStages); }
TREK_TILE uint32_t parity(uint32_t step) { return step / kStages & 1; }
TREK_TILE uint32_t stage_at(uint32_t step) { return kRing + step % kStages * kStage; }

TREK_TILE const std::byte* columns_at(const Gemv& of, const Tile& tile, const std::byte* arena) {
  const uint64_t column = of.by_line != 0 ? of.pitch : 2;
  return arena + of.right + uint64_t{tile.matrix} * of.right_matrix + tile.column * column;
}

// Has the parts of a tile's columns copied, from step `step` of the ring on; by all lanes of a warp of the frame. `are_there`:
// they lie in memory as they are to come, but for a line that is in words. Where they do not, the block brings them itself,
// and is told of the stages alone.
// The step behind them.
TREK_TILE uint32_t bring(const Gemv& of, uint32_t number, const std::byte* arena, bool are_there,
                         uint32_t step) {
  uint32_t lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  const Tile tile(of, number);
  const std::byte* from = columns_at(of, tile, arena);
  const std::byte* packed = arena + packed_of(of, tile);
  const uint32_t written = written_line_of(of, tile);
  TREK_ROLLED
  for (Part part(of, tile); part.is_there(tile); part.next(of, tile), ++step) {
    if (step >= kStages) tensor::barrier_wait(empty(step), parity(step - kStages));
    tensor::before_engine(true);
    const bool has_line = of.by_line != 0 && written < part.columns;
    if (tensor::elected()) {
      if (are_there)
        tensor::barrier_expect(full(step), part.bytes() - (has_line ? 2 * part.k : 0));
      else
        tensor::barrier_arrive(full(step));
    }
    tensor::warp_sync();
    if (!are_there) continue;
    const uint32_t to = shared_address(memory_of_units + stage_at(step));
    if (of.by_line == 0) {
      if (tensor::elected())
        tensor::copy_bytes(to, packed + part.packed_at(of), part.bytes(), full(step));
      continue;
    }
    TREK_ROLLED
    for (uint32_t c = lane; c < part.columns; c += 32)
      if (c != written)
        tensor::copy_bytes(to + c * of.line,
                           from + uint64_t{part.column + c} * of.pitch + 2 * part.first_k,
                           2 * part.k, full(step));
  }
  return step;
}

// Waits until all that was brought before step `step` has been multiplied; by all lanes.
TREK_TILE void end_ring(uint32_t step) {
  TREK_ROLLED
  for (uint32_t s = step < kStages ? 0 : step - kStages; s < step; ++s)
    tensor::barrier_wait(empty(s), parity(s));
}

// The pieces of 16 bytes of a part's columns that are this thread's: where they go, from a stage's begin on, and where they
// are in memory.
class Pieces {
 public:
  TREK_TILE_MEMBER Pieces(const Task& task, const Gemv& of, const Tile& tile, const Part& part,
                          const std::byte* columns)
      : by_line_(of.by_line != 0),
        line_(of.by_line != 0 ? of.line : 16),
        apart_(of.by_line != 0 ? 16 : 16 * part.k),
        pitch_(of.pitch),
        lines_(by_line_ ? part.columns : part.k),
        written_(written_line_of(of, tile)),
        pieces_((by_line_ ? part.k : part.columns) / 8),
        first_(task.thread() / pieces_),
        piece_(task.thread() - first_ * pieces_),
        lines_on_(kBlockThreads / pieces_),
        from_(columns + (by_line_ ? uint64_t{part.column} * pitch_ + 2 * part.first_k
                                  : uint64_t{part.first_k} * pitch_ + 2 * part.column)) {
    pieces_on_ = kBlockThreads - lines_on_ * pieces_;
  }
  // Calls act(to, from).
  template <class Act>
  TREK_TILE_MEMBER void each(Act act) const {
    uint32_t line = first_;
    uint32_t piece = piece_;
    TREK_ROLLED
    while (line < lines_) {
      if (line != written_)
        act(line * line_ + piece * apart_, from_ + uint64_t{line} * pitch_ + 16 * piece);
      line += lines_on_;
      piece += pieces_on_;
      if (piece >= pieces_) {
        piece -= pieces_;
        ++line;
      }
    }
  }
  TREK_TILE_MEMBER void copy(const Task& task, uint32_t to) const {
    each([&](uint32_t at, const std::byte* from) TREK_TILE_LAMBDA {
      copy_ahead<16>(shared_address(task.shared<std::byte>(to + at)), from);
    });
    commit_copies();
  }

 private:
  bool by_line_;
  uint32_t line_;
  uint32_t apart_;
  uint32_t pitch_;
  uint32_t lines_;
  uint32_t written_;  // the one of a part that comes in words
  uint32_t pieces_;   // of a line
  uint32_t first_;
  uint32_t piece_;
  uint32_t lines_on_;
  uint32_t pieces_on_;
  const std::byte* from_;
};

// Has columns that something writes copied by the block, to where they lie then. Called: most columns come in stages.
TREK_UNIT_CALL void copy_panel(Task task, const Gemv& of, Tile tile, Part part,
                               const std::byte* arena) {
  Pieces(task, of, tile, part, columns_at(of, tile, arena)).copy(task, kPanel);
}

// Brings all parts of k of some columns to their stages, which are there for them, and leaves them in memory as they lie
// there; there are no more of them than stages. Called: it is for a first trip.
TREK_UNIT_CALL void bring_columns(Task task, const Gemv& of, Tile tile, Part part, uint32_t step,
                                  std::byte* arena) {
  bool is_last = false;
  TREK_ROLLED
  for (; !is_last; ++step) {
    const uint32_t stage = stage_at(step);
    const Pieces pieces(task, of, tile, part, columns_at(of, tile, arena));
    tensor::barrier_wait(full(step), parity(step));
    pieces.copy(task, stage);
    wait_for_copies(0);
    if (of.packed != Areas::kNone) {
      std::byte* to = arena + packed_of(of, tile) + part.packed_at(of);
      pieces.each([&](uint32_t at, const std::byte* /*from*/) TREK_TILE_LAMBDA {
        *reinterpret_cast<Words*>(to + at) = *task.shared<Words>(stage + at);
      });
    }
    is_last = part.is_last_of_columns(of);
    part.next(of, tile);
  }
  tensor::before_engine(true);
  task.sync();
}

#endif

}  // namespace trek::device::gemv
