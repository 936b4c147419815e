// What is to be brought for a tile of a product on Hopper, and how far that is: said ahead by the kernel, or by the tile,
// and read by the warp that asks for the copies (matrix_ring_90a.h). On the host because slots of a kernel hold it.
#pragma once

#include <cstdint>

namespace trek::device::tensor {

struct TensorMap;  // tensor_core.h

// A tile whose operands are brought: its parts, and the copies of each. In shared memory, so that neither side
// keeps it in registers.
struct Brought {
  const TensorMap* maps;  // of the left operand, then of the right one
  int64_t batch;
  uint32_t left_matrix;  // of the operands' batches
  uint32_t right_matrix;
  uint32_t first_row;
  uint32_t first_column;
  uint32_t end_row;
  uint32_t end_column;
  uint32_t across;  // parts of a row
  uint32_t rows;    // of a part
  uint32_t columns;
  uint32_t slots;
  uint32_t readers;  // of a slot: warpgroups, or warps
  uint32_t first_k;
  uint32_t k;      // where it ends
  uint32_t depth;  // places of k of a slot
  uint32_t block;  // of a turn: as many, or more where groups take turns
  uint32_t round;  // of the turns of all groups
  uint32_t steps;  // slots of a part
  // Lines of a copy of each operand: of a part all that exist where its k are neighbours.
  uint32_t left_lines;
  uint32_t right_lines;
  // Of the ring, modulo both phases of all slots, and 0 in a new ring alone: the first; and how many of those of the first
  // part are asked for.
  uint32_t first_step;
  uint32_t begun;
  // Of a tile that two blocks work on: which half of the columns is this one's, to give or to bring; and the steps of the
  // other one.
  uint32_t half;
  uint32_t steps_of_other;
  bool a_by_line;
  bool b_by_line;
  bool ends;            // the ring is empty after every part, because the tail needs its memory
  bool goes_on;         // with the tile of the next task
  bool shares_depth;    // with the other block: Pairing::depth
  bool brings_halves;   // of the right operand at a time, which is Pairing::columns,
  bool shares_columns;  // and those for both blocks
};

}  // namespace trek::device::tensor
