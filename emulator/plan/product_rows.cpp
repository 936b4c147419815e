// Which rows of a product are better left to a node of smaller tiles: see divide_rows().
#include <algorithm>

#include "emulator/plan/product.h"

namespace trek::plan {

namespace {

// What a node more is worth: of the whole, and in cycles of a processor, which meets code for it that it has not met. Of
// products by tensor cores the estimates are the nearer ones, and of ordered ones whose rest is in runs, as tiles are then all
// alike.
struct Worth {
  double gain;
  double cycles;
};
Worth worth_of(Product product, const MatrixTiles& rest) {
  if (product == Product::tensor) return {0.02, 4500};
  return rest.runs > 0 ? Worth{0.005, 4500} : Worth{0.05, 8000};
}
// How many of the processors the first node's tiles keep at work, at least.
constexpr double kFull = 0.9;
// Tiles for which the product as a whole would take longer than this, compared with the best, are not looked at.
constexpr double kMostOfBest = 2;

class Divider {
 public:
  Divider(const Device& device, const ProductWork& work, const MatrixTiles& chosen)
      : device_(device),
        work_(work),
        most_split_(work.most_split),
        may_run_(work.may_run && work.product == Product::ordered),
        whole_(estimate(device, work, chosen)),
        least_(whole_) {
    work_.most_split = 1;
    work_.may_run = false;
  }
  std::optional<RowParts> run();

 private:
  void first_tiles(const MatrixTiles& tiles);
  ProductWork part(int64_t rows) const;
  ProductWork rest(int64_t first) const;

  const Device& device_;
  ProductWork work_;
  int64_t most_split_;  // of the k of the rest
  bool may_run_;        // that, too
  double whole_;        // cycles
  double least_;        // so far, with what a node more is worth
  std::optional<RowParts> best_;
};

ProductWork Divider::part(int64_t rows) const {
  ProductWork work = work_;
  work.shape.m = rows;
  return work;
}

ProductWork Divider::rest(int64_t first) const {
  ProductWork work = part(work_.shape.m - first);
  work.most_split = most_split_;
  work.may_run = may_run_;
  return work;
}

// As many turns of all processors as these tiles fill, or one less.
void Divider::first_tiles(const MatrixTiles& tiles) {
  const int64_t turns = tiles.count / work_.share;
  for (int64_t of = turns; of > 0 && of + 2 > turns; --of) {
    const int64_t together = rows_together(tiles);
    const int64_t rows = of * work_.share / tiles.across * tiles.rows / together * together;
    const int64_t down = rows / tiles.rows;
    if (down == 0 || rows >= work_.shape.m) continue;
    if (static_cast<double>(down * tiles.across) < kFull * static_cast<double>(of * work_.share))
      continue;
    RowParts parts{rows, tiles, {}};
    count_tiles(parts.of_first, part(rows).shape);
    const double first = estimate(device_, part(rows), parts.of_first);
    const double share_of_rest = 1 - static_cast<double>(rows) / static_cast<double>(work_.shape.m);
    if (first + whole_ * share_of_rest / 2 >= least_) continue;
    parts.of_rest = choose(device_, rest(rows), rows);
    if (parts.of_rest.count == 0) continue;
    const Worth worth = worth_of(work_.product, parts.of_rest);
    const double both =
        (first + estimate(device_, rest(rows), parts.of_rest) + worth.cycles) / (1 - worth.gain);
    if (both >= least_) continue;
    least_ = both;
    best_ = parts;
  }
}

std::optional<RowParts> Divider::run() {
  for (const MatrixTiles& tiles : candidates(device_, work_))
    if (estimate(device_, work_, tiles) < kMostOfBest * whole_) first_tiles(tiles);
  if (!best_) return std::nullopt;
  const int64_t first = best_->first;
  take_rows(best_->of_first, work_.shape, {0, first});
  take_rows(best_->of_rest, work_.shape, {first, work_.shape.m - first});
  return best_;
}

}  // namespace

std::optional<RowParts> divide_rows(const Device& device, const ProductWork& work,
                                    const MatrixTiles& chosen) {
  const bool may = work.shape.batches == 1 && !work.group && !device.packs_panels &&
                   (work.product == Product::ordered || work.product == Product::tensor);
  if (!may) return std::nullopt;
  return Divider(device, work, chosen).run();
}

}  // namespace trek::plan
