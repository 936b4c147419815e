#include "emulator/plan/deal.h"

#include <span>
#include <vector>

#include "emulator/plan/product.h"
#include "emulator/plan/runs.h"

namespace trek::plan {
namespace {

// Whether a node joins what tiles of a long reduction gave, which stand for no instruction (long_reduction.h).
bool is_end(const Node& tiles, const Node& node) {
  return node.unit == Unit::reduce && node.tasks == 1 && tiles.unit == Unit::reduce &&
         tiles.weight == 0;
}

class Dealer {
 public:
  explicit Dealer(Plan& plan)
      : plan_(plan),
        processors_(static_cast<uint32_t>(plan.device.processors)),
        writer_(plan.buffers.size(), kNone),
        first_(plan.nodes.size(), 0),
        paired_(plan.nodes.size(), 0) {}
  void run();

 private:
  void deal(uint32_t index);
  void deal_pairs(uint32_t index);
  void deal_runs(uint32_t index);
  uint32_t leader(uint32_t index) const;
  bool fills_up(uint32_t index) const;
  uint32_t pairs_of(const Node& node) const;
  std::span<const Box> boxes(const Node& node) const {
    return plan_.boxes_of(plan_.tasks[node.first_task]);
  }

  Plan& plan_;
  uint32_t processors_;
  uint32_t next_ = 0;
  uint32_t product_ = kNone;  // the last that was dealt from next_ on, and not to all processors
  std::vector<uint32_t> writer_;  // per buffer: the last node that wrote it
  std::vector<uint32_t> first_;   // per node: the place of its first tile
  std::vector<uint32_t> paired_;  // per node: tiles of a row, if rows are paired; else 0
};

// Whether a node is a thin product of which every task reads all that a node of several tasks gives, and multiplies by
// other weights than that one. On a device that interprets, which has most to do before it multiplies, processors that have
// no part in what is read are through with that by the time it is there.
bool has_all_ahead(const Plan& plan, const Node& from, const Node& node) {
  if (!plan.device.interprets || node.tiling != Tiling::matrix || from.tasks < 2) return false;
  if (product_of(plan, node) != Product::thin || matrix_shape(node).batches != 1) return false;
  const auto weights = [&](const Node& product) {
    const Operand& right = product.operands[1];
    return right.kind == Operand::Kind::view ? plan.views[right.index].buffer : kNone;
  };
  return from.unit != Unit::matrix || weights(from) != weights(node);
}

// The last of the nodes whose results a node reads, or puts something into, that has as many tasks, or kNone; also for
// one of several that share the k of a product, which are to stand beside each other. What a long reduction ends with
// stands where one of its tiles does.
uint32_t Dealer::leader(uint32_t index) const {
  uint32_t found = kNone;
  if (plan_.nodes[index].depth.count != 0) return found;
  for (const Box& box : boxes(plan_.nodes[index])) {
    const uint32_t writer = writer_[box.buffer];
    if ((box.write && !box.partial) || writer == kNone) continue;
    const Node& from = plan_.nodes[writer];
    if (from.unit == Unit::control) continue;
    if (from.tasks != plan_.nodes[index].tasks && !is_end(from, plan_.nodes[index])) continue;
    if (has_all_ahead(plan_, from, plan_.nodes[index])) return kNone;
    if (found == kNone || writer > found) found = writer;
  }
  return found;
}

// Tiles of a row, where two that stand above each other are to be on neighbouring processors; 0: in the order of rows.
// Multiprocessors 2i and 2i + 1 share their way to the second-level cache, and such tiles the columns that they read.
uint32_t Dealer::pairs_of(const Node& node) const {
  if (!plan_.device.copies_tensors || node.tiling != Tiling::matrix || node.depth.count != 0)
    return 0;
  // Of fewer tiles some others may stand beside them, and none is to be left out between them.
  if (2 * node.tasks <= processors_ || product_of(plan_, node) != Product::tensor) return 0;
  return static_cast<uint32_t>(plan_.tilings[node.tiles].across);
}

// Where tile i of `tasks` comes, if those of two rows of so many are paired.
uint32_t paired_place(uint32_t i, uint32_t across, uint32_t tasks) {
  if (across == 0) return i;
  const uint32_t row = i / across;
  const bool is_last = row % 2 == 0 && (row + 1) * across >= tasks;
  if (is_last) return i;
  return row / 2 * 2 * across + i % across * 2 + row % 2;
}

// Tiles that are worked on together to processors 2j and 2j + 1, in the order of the first of both; to the control
// processor's pair only where each processor has a tile.
void Dealer::deal_pairs(uint32_t index) {
  const Node& node = plan_.nodes[index];
  const MatrixTiles& tiles = plan_.tilings[node.tiles];
  const std::span tasks = std::span(plan_.tasks).subspan(node.first_task, node.tasks);
  const bool everywhere = node.tasks >= processors_;
  const uint32_t places = everywhere ? processors_ : processors_ - 2;
  uint32_t place = (everywhere ? 0 : (next_ + 1) / 2 * 2) % places;
  // In places as deal() counts them: of processor p it is p - 1.
  first_[index] = (place + 1) % processors_;
  const auto put = [&](int64_t tile) {
    tasks[static_cast<size_t>(tile - tiles.first)].processor = (place + 2) % processors_;
    place = (place + 1) % places;
  };
  // Of those that are alone two stand beside each other as a pair does, near the rows that they share operands with.
  int64_t alone = kNone;
  for (int64_t i = tiles.first; i < tiles.first + node.tasks; ++i) {
    const int64_t other = partner_of(tiles, i);
    if (other == kNone) {
      if (alone != kNone) {
        put(alone);
        put(i);
      }
      alone = alone == kNone ? i : int64_t{kNone};
    } else if (i < other) {
      put(i);
      put(other);
    }
  }
  if (alone != kNone) put(alone);
  if (!everywhere) next_ = (place + 1) % (processors_ - 1);
}

// All that a run has to one processor. There is a run for each, and processors 2i and 2i + 1 have those of a pair.
void Dealer::deal_runs(uint32_t index) {
  const Node& node = plan_.nodes[index];
  const MatrixTiles& tiles = plan_.tilings[node.tiles];
  const Runs runs(matrix_shape(node), tiles);
  first_[index] = 1;
  for (Task& task : std::span(plan_.tasks).subspan(node.first_task, node.tasks))
    task.processor = static_cast<uint32_t>(runs.run_of(node, task) + 2) % processors_;
}

// Whether a product that is dealt from next_ on has, together with the one before it, which ends there, a tile for each
// processor: so the last one is the control processor's.
bool Dealer::fills_up(uint32_t index) const {
  if (product_ == kNone) return false;
  const uint32_t before = plan_.nodes[product_].tasks;
  return (first_[product_] + before) % (processors_ - 1) == next_ &&
         before + plan_.nodes[index].tasks == processors_;
}

void Dealer::deal(uint32_t index) {
  const Node& node = plan_.nodes[index];
  if (node.of_runs != OfRuns::none) return deal_runs(index);
  if (pairing_of(plan_, node) != Pairing::none) return deal_pairs(index);
  const std::span tasks = std::span(plan_.tasks).subspan(node.first_task, node.tasks);
  if (node.unit == Unit::control) {
    for (Task& task : tasks) task.processor = plan_.control();
    return;
  }
  const bool everywhere = node.tasks >= processors_;
  const uint32_t places = everywhere ? processors_ : processors_ - 1;
  const uint32_t leads = leader(index);
  paired_[index] = leads != kNone ? paired_[leads] : pairs_of(node);
  const bool is_spread = everywhere && node.depth.count == 0;
  const bool is_one_of_several = node.unit == Unit::matrix && !everywhere && leads == kNone;
  const bool fills = is_one_of_several && fills_up(index);
  if (leads != kNone) {
    first_[index] = first_[leads];
  } else {
    const uint32_t first = is_spread ? 0 : next_;
    first_[index] = paired_[index] != 0 ? first | 1 : first;  // of pairs an even processor
    const uint32_t end = first_[index] + node.tasks;
    if (!is_spread)
      next_ = end % places;
    else if (node.tasks % places != 0)  // the places behind it have a tile less than the others
      next_ = end % places % (processors_ - 1);
  }
  // Places are processors 1, 2, ... and then the control processor, where each has a tile.
  for (uint32_t i = 0; i < node.tasks; ++i)
    tasks[i].processor =
        ((first_[index] + paired_place(i, paired_[index], node.tasks)) % places + 1) % processors_;
  if (fills) tasks.back().processor = plan_.control();
  if (is_one_of_several) product_ = index;
}

void Dealer::run() {
  for (uint32_t n = 0; n < plan_.nodes.size(); ++n) {
    if (plan_.nodes[n].tasks == 0) continue;
    deal(n);
    for (const Box& box : boxes(plan_.nodes[n]))
      if (box.write) writer_[box.buffer] = n;
  }
}

}  // namespace

void deal(Plan& plan) { Dealer(plan).run(); }

}  // namespace trek::plan
