// Products whose tiles do not come out even on the processors: the k of all tiles are laid end to end, tile after tile, and
// cut into runs of about as many steps, one for each processor.
//
//   tile          0               1               2
//   k       |---------------|---------------|---------------|
//   run     |----0----|----1----|----2----|----3----|---4---|
//
// A run has the end of a tile, then whole tiles, then the beginning of one; or it lies within a tile. So such a product is
// two nodes, which share the tiles (split_products.h). One has a task for each run that does not end the tile it comes to
// last: that sums what the run has of it, and puts the sums, one of each output of a tile in any order, to a line of a
// tensor that is the run's. The other has a task for each tile: it sums the k that the last run has of it, adds the lines
// of the runs before, in order, and goes on as any product does. A run's processor has the first kind of task first, so
// none that another waits for stands behind one that waits.
//
// An ordered product has one order of sums (isa/semantics/dot.h), so what ends a tile begins with the sums that the run
// before has left. There is one such run at most, as runs are no shorter than a tile; and the processor has its whole tiles
// first, by when that run has long put its sums.
//
// One of few tiles and many k is divided into nodes by segments, as others are, whose sums another node adds. In runs the
// tiles of a segment are laid behind those of the segment before: the cuts are of all of them, and each node has what lies
// in its own segment. Nodes that begin tiles come before all that end some, or a run that goes on from one segment to the next
// would end what it has of the first before it begins a tile for which others wait.
//
// Where two processors bring columns together (Pairing::columns), what is laid end to end are pairs of tiles, and what is
// cut are runs of two processors: runs 2i and 2i + 1 have the same k of the tiles of a pair.
//
// Tiles follow each other along the shorter side of the result, so that those which share lines of the larger operand
// are in step, as long as the cuts of a row of tiles (or a column) are those of the next.
#pragma once

#include <vector>

#include "emulator/plan/geometry.h"

namespace trek::plan {

// Places of k of a step: runs begin and end at multiples, or with k.
inline constexpr int64_t kRunStep = 64;
// Steps: of a tile, of which a run that would have fewer ends where the tile does, but for ordered products, whose steps are
// long; and of a run.
inline constexpr int64_t kLeastOfRun = 4;
inline constexpr int64_t kLeastRun = 12;

class Runs {
 public:
  // Of a product that may have so many, or of its tiles from MatrixTiles::first on, a whole number of rows of them; where its
  // k is divided, of MatrixTiles::segment, whose k is that of the shape.
  Runs(const MatrixShape& shape, const MatrixTiles& tiles);

  // The tile that a run comes to last and does not end, if it is of this segment, or kNone; and the k that it has of it, counted
  // from the product's first, as elsewhere.
  int64_t tile_begun(int64_t run) const;
  Depth begun(int64_t run) const;
  // The run that ends a tile, the k that it has of it, and the first of those that begin it: they are every together() of
  // [first_run(tile), last_run(tile)), of which there may be none.
  int64_t last_run(int64_t tile) const;
  Depth ended(int64_t tile) const;
  int64_t first_run(int64_t tile) const;
  // The run that a task of one of the product's nodes is of.
  int64_t run_of(const Node& node, const Task& task) const {
    return node.of_runs == OfRuns::begun ? task.first : last_run(task.first);
  }

  int64_t together() const { return together_; }  // runs that have the same k: 1 or 2
  // The steps of the longest run, the most that are begun of a tile, and the most tiles that a run ends, of all segments.
  int64_t longest() const;
  int64_t most_begun() const;
  int64_t most_ended() const;

 private:
  // Where a tile comes in the order in which tiles, or pairs of them, are laid end to end; and which of its pair it is.
  struct Spot {
    int64_t place;
    int64_t member;
  };
  Spot spot_of(int64_t tile) const;
  int64_t tile_at(Spot spot) const;
  int64_t start_of(Spot spot) const { return (segment_ * places() + spot.place) * steps_; }
  int64_t begin_of(int64_t run) const { return cuts_[static_cast<size_t>(run / together_)]; }
  int64_t end_of(int64_t run) const { return cuts_[static_cast<size_t>(run / together_) + 1]; }
  int64_t places() const { return down_ * across_; }
  Depth depth_of(int64_t first_step, int64_t end_step) const;

  int64_t together_;
  bool side_by_side_;  // the tiles of a pair
  int64_t first_;
  int64_t segments_;
  int64_t segment_;
  int64_t down_;  // tiles, or pairs of tiles
  int64_t across_;
  bool by_columns_;
  int64_t first_k_;
  int64_t k_;
  int64_t steps_;
  std::vector<int64_t>
      cuts_;  // where runs begin, and the end: in steps from the first tile's start
};

// What each node of a product in runs has of its k, where that is divided: all have as much.
MatrixShape segment_in_runs(const MatrixShape& shape, const MatrixTiles& tiles);

// Whether a product in runs is ordered; of others tiles have parts.
inline bool is_ordered(const MatrixTiles& tiles) { return tiles.part_columns == 0; }
// Elements of a run's line: the outputs of a tile, and of an ordered product of several segments, behind the sums of these,
// the totals, which begin at totals_of_run(); 0: there are none.
int64_t line_of_run(const MatrixShape& shape, const MatrixTiles& tiles);
int64_t totals_of_run(const MatrixShape& shape, const MatrixTiles& tiles);
// Of a node that ends tiles: the buffer of the lines.
uint32_t begun_buffer(const Plan& plan, const Node& node);
// Whether a node wants what the other one has begun of its tiles behind its own products alone.
bool adds_late(const Plan& plan, const Node& node);
// Whether a task reads what a box has behind its late waits alone: what was begun of its tile.
bool is_read_late(const Plan& plan, const Task& task, const Box& box);

// How many steps a tile has, and whether its product, of a single matrix, can be cut into MatrixTiles::runs: if each then
// has kLeastRun steps, and no tile of a pair is alone. And an ordered one: if none is shorter than a tile. `shape` is that of
// a segment.
inline int64_t run_steps(const MatrixShape& shape) { return (shape.k + kRunStep - 1) / kRunStep; }
bool may_have_runs(const MatrixShape& shape, const MatrixTiles& tiles);
bool may_have_ordered_runs(const MatrixShape& shape, const MatrixTiles& tiles);

}  // namespace trek::plan
