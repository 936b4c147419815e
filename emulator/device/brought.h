// What is brought for a tile of a product on Hopper: worked out once by who encodes tasks, and read by the warp that asks
// for the copies and by those that multiply (matrix_ring_90a.h). And how far that is, which the kernel says.
#pragma once

#include <cstdint>

#include "emulator/device/matrix_turns.h"
#include "emulator/device/node.h"

namespace trek::device::tensor {

// Bytes of the arena that a tile reads or writes, by numbers of 256 of them.
struct Extent {
  uint32_t begin;
  uint32_t end;
};
TREK_ON_DEVICE constexpr bool overlap(const Extent& a, const Extent& b) {
  return a.begin < b.end && b.begin < a.end;
}

// What says whether one ring goes on from a tile to the next.
struct alignas(16) Joint {
  // Of the ring, by which they must be alike: its slots, who reads them, lines, and what two blocks share; kAlone: neither
  // goes on with another's, and both begin with the first slot. Where there are turns, the slot that is asked for last is
  // not the one with the last k, and groups know theirs by numbers; and a tail may need the ring's memory.
  uint32_t form;
  uint32_t stays;  // not 0: nothing writes the operands during a launch
  Extent left;
  Extent right;
  Extent result;
  static constexpr uint32_t kAlone = 0;
};

// A tile whose operands are brought: its parts, and the copies of each.
struct alignas(16) Brought {
  uint64_t maps;   // where the tensor maps lie in the arena: the left operand's, then the right
  uint32_t batch;  // of the result,
  uint32_t left_matrix;  // and of the operands
  uint32_t right_matrix;
  uint32_t first_row;
  uint32_t first_column;
  uint32_t end_row;
  uint32_t end_column;
  uint32_t across;  // parts of a row
  uint32_t rows;    // of a part
  uint32_t columns;
  uint32_t slots;
  uint32_t readers;  // of a slot: warpgroups, or warps; of both blocks that bring to it
  uint32_t first_k;
  uint32_t k;      // where it ends
  uint32_t depth;  // places of k of a slot
  uint32_t block;  // of a turn: as many, or more where groups take turns
  uint32_t round;  // of the turns of all groups
  uint32_t steps;  // slots of a part
  // Lines of a copy of each operand: of a part all that exist where its k are neighbours.
  uint32_t left_lines;
  uint32_t right_lines;
  uint32_t half;  // of a tile that two blocks work on: of the columns, to give or to bring
  Joint joint;
  bool a_by_line;
  bool b_by_line;
  bool ends;            // the ring is empty after every part, because the tail needs its memory
  bool shares_depth;    // with the other block: Pairing::depth
  bool brings_halves;   // of the right operand at a time: in a pair by columns, or of many columns
  bool shares_columns;  // the halves of two blocks, each for both: Pairing::columns
  uint16_t meeting;     // blocks that meet before a tile; 0: it is begun as soon as it can be
  // Of a product in runs (plan/runs.h): the runs that have begun a tile which this task ends, of [first_run, end_run) every
  // InRuns::together, or by the dot order the first, where the task's k are not the tile's first; and the run whose sums it
  // begins, which is the first.
  uint32_t first_run;
  uint32_t end_run;
};
static_assert(sizeof(Brought) == 144);

// Whether its slots are asked for by line: k of both operands are neighbours, and there are no turns.
TREK_ON_DEVICE inline bool is_asked_by_line(const Brought& brought) {
  return brought.a_by_line && brought.b_by_line && brought.round == SlotOrder::kOneRound;
}

// How far that is, in a slot of the kernel.
struct alignas(16) Asked {
  uint32_t first_step;  // of the ring, modulo both phases of all slots
  uint32_t begun;       // steps of the first part that have been asked for during the task before
  uint32_t follows;     // not 0: so the ring goes on from that
  uint32_t tile;  // its number among the block's: by which barrier is said that it has been begun
};

struct Bringing {
  Brought what;
  Asked asked;
};

// Tiles that may have been begun before the block knows of it.
inline constexpr uint32_t kTilesBegun = 2;

// The ring that stands, for the warp that asks: of what form it is, and the step that comes next.
struct RingState {
  uint64_t full[8];
  uint64_t empty[8];
  uint64_t begun_tile[kTilesBegun];
  uint32_t form;  // slots and readers; 0: none has been made
  uint32_t step;  // modulo both phases of all slots
  // Of tiles by columns: what the other block has told so far, and begun, which is the phases that its barriers are in;
  // whether this block has said that the ring goes on to the next; and whether the other's word for that is to be heard.
  uint32_t heard;
  uint32_t begun;
  uint32_t goes_on;
  uint32_t is_unheard;
};

// Barriers at which boxes arrive that a block's own warps ask for (boxes.h), each once a task.
struct BoxBarriers {
  uint64_t part[8];  // of a step of boxes: parts of k of both operands
  uint64_t own;      // and all that it steps
  uint32_t parity;   // of the phases that come next
};

// What tiles of a program's products do with the ring: the frame of a compiled program has code for no more.
enum RingUse : uint32_t {
  kAskedByLine = 1,      // is_asked_by_line()
  kAskedBySlot = 2,      // any other
  kHalvesBrought = 4,    // Brought::brings_halves
  kColumnsShared = 8,    // Brought::shares_columns
  kDepthShared = 16,     // Brought::shares_depth
  kEnded = 32,           // Brought::ends
  kBegunAdded = 64,      // of a product in runs: what others have begun is added
  kMet = 128,            // Brought::meeting
  kByTensorCores = 256,  // who multiplies what is brought
  kInOrder = 512,
};
// Of a node that has tensor maps. Host only.
uint32_t ring_uses(const Node& node);

// The product that tensor cores multiply in parts of kPartRows rows: of a transposed one its operands have changed sides,
// and its result is the transpose of the node's. Its tiles are numbered as the node's are. Host only.
Matrix multiplied(const Matrix& of);
// Whether the right operand of that comes in halves of a part's columns: in a pair that brings columns together, or where k
// are neighbours and a part has more lines than a box. Host only.
bool brings_halves(const Matrix& of);

// Whether copies take longer than products of a node that has tensor maps, and a tile has so many that its blocks gain by
// asking for them at the same time more than a meeting costs. Host only.
bool gains_by_meeting(const Node& node);

// The tile `number` of a node whose operands have tensor maps, or what run `number` has of one. Host only.
Brought brought_of(const Node& node, int64_t number);

}  // namespace trek::device::tensor
