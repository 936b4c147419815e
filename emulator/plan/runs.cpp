#include "emulator/plan/runs.h"

#include <algorithm>

namespace trek::plan {

bool may_have_runs(const MatrixShape& shape, const MatrixTiles& tiles) {
  const int64_t steps = run_steps(shape);
  const bool are_paired = tiles.pairing == Pairing::columns;
  const bool is_whole = !are_paired || (tiles.runs % 2 == 0 &&
                                        (tiles.transposed ? tiles.across : tiles.down) % 2 == 0);
  return shape.batches == 1 && tiles.runs > 0 && tiles.pairing != Pairing::depth && is_whole &&
         steps >= 2 * kLeastOfRun && tiles.split * tiles.count * steps >= tiles.runs * kLeastRun;
}

bool may_have_ordered_runs(const MatrixShape& shape, const MatrixTiles& tiles) {
  return tiles.pairing == Pairing::none && tiles.split * tiles.count > tiles.runs &&
         may_have_runs(shape, tiles);
}

MatrixShape segment_in_runs(const MatrixShape& shape, const MatrixTiles& tiles) {
  MatrixShape segment = shape;
  segment.k /= tiles.split;
  return segment;
}

int64_t totals_of_run(const MatrixShape& shape, const MatrixTiles& tiles) {
  return is_ordered(tiles) && shape.k > kOrderedSegment ? tiles.rows * tiles.columns : 0;
}

int64_t line_of_run(const MatrixShape& shape, const MatrixTiles& tiles) {
  return tiles.rows * tiles.columns + totals_of_run(shape, tiles);
}

uint32_t begun_buffer(const Plan& plan, const Node& node) {
  return plan.views[node.operands[node.begun].index].buffer;
}

bool adds_late(const Plan& plan, const Node& node) {
  return node.of_runs == OfRuns::ended && !is_ordered(plan.tilings[node.tiles]);
}

bool is_read_late(const Plan& plan, const Task& task, const Box& box) {
  const Node& node = plan.nodes[task.node];
  return adds_late(plan, node) && !box.write && box.buffer == begun_buffer(plan, node);
}

Runs::Runs(const MatrixShape& shape, const MatrixTiles& tiles)
    : together_(tiles.pairing == Pairing::columns ? 2 : 1),
      side_by_side_(tiles.transposed),
      first_(tiles.first),
      segments_(tiles.split),
      segment_(tiles.segment),
      down_(tiles.count / tiles.across / (side_by_side_ ? 1 : together_)),
      across_(side_by_side_ ? tiles.across / together_ : tiles.across),
      by_columns_(shape.m > shape.n),
      first_k_(shape.first_k),
      k_(shape.k),
      steps_(run_steps(shape)) {
  const int64_t all = segments_ * places() * steps_;
  const int64_t runs = tiles.runs / together_;
  const int64_t least = is_ordered(tiles) ? 1 : kLeastOfRun;
  for (int64_t run = 0; run <= runs; ++run) {
    const int64_t cut = all * run / runs;
    const int64_t of_tile = cut % steps_;
    const int64_t left = steps_ - of_tile;
    cuts_.push_back(of_tile < least ? cut - of_tile : left < least ? cut + left : cut);
  }
}

Runs::Spot Runs::spot_of(int64_t tile) const {
  const int64_t of_row = side_by_side_ ? across_ * together_ : across_;
  int64_t row = (tile - first_) / of_row;
  int64_t column = (tile - first_) % of_row;
  int64_t& of_pair = side_by_side_ ? column : row;
  const int64_t member = of_pair % together_;
  of_pair /= together_;
  return {by_columns_ ? column * down_ + row : row * across_ + column, member};
}
int64_t Runs::tile_at(Spot spot) const {
  const int64_t row = by_columns_ ? spot.place % down_ : spot.place / across_;
  const int64_t column = by_columns_ ? spot.place / down_ : spot.place % across_;
  if (side_by_side_) return first_ + (row * across_ + column) * together_ + spot.member;
  return first_ + (row * together_ + spot.member) * across_ + column;
}
Depth Runs::depth_of(int64_t first_step, int64_t end_step) const {
  const int64_t first = first_step * kRunStep;
  return {first_k_ + first, std::min(end_step * kRunStep, k_) - first};
}

int64_t Runs::tile_begun(int64_t run) const {
  const int64_t end = end_of(run);
  const int64_t place = end / steps_ - segment_ * places();
  if (end % steps_ == 0 || place < 0 || place >= places()) return kNone;
  return tile_at({place, run % together_});
}
Depth Runs::begun(int64_t run) const {
  const int64_t end = end_of(run);
  const int64_t start = end / steps_ * steps_;
  return depth_of(std::max(begin_of(run), start) - start, end - start);
}

int64_t Runs::last_run(int64_t tile) const {
  const Spot spot = spot_of(tile);
  const int64_t end = start_of(spot) + steps_;
  const int64_t run = std::ranges::lower_bound(cuts_, end) - cuts_.begin() - 1;
  return run * together_ + spot.member;
}
Depth Runs::ended(int64_t tile) const {
  const int64_t start = start_of(spot_of(tile));
  return depth_of(std::max(begin_of(last_run(tile)), start) - start, steps_);
}
int64_t Runs::first_run(int64_t tile) const {
  const Spot spot = spot_of(tile);
  const int64_t run = std::ranges::upper_bound(cuts_, start_of(spot)) - cuts_.begin() - 1;
  return run * together_ + spot.member;
}

int64_t Runs::longest() const {
  int64_t most = 0;
  for (size_t run = 0; run + 1 < cuts_.size(); ++run)
    most = std::max(most, cuts_[run + 1] - cuts_[run]);
  return most;
}
int64_t Runs::most_begun() const {
  int64_t most = 0;
  for (int64_t tile = first_; tile < first_ + places() * together_; ++tile)
    most = std::max(most, (last_run(tile) - first_run(tile)) / together_);
  return most;
}
int64_t Runs::most_ended() const {
  int64_t most = 0;
  for (size_t run = 0; run + 1 < cuts_.size(); ++run)
    most = std::max(most, cuts_[run + 1] / steps_ - cuts_[run] / steps_);
  return most;
}

}  // namespace trek::plan
