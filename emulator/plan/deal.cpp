#include "emulator/plan/deal.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "emulator/plan/cycles.h"
#include "emulator/plan/for_steps.h"
#include "emulator/plan/place.h"
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
        paired_(plan.nodes.size(), 0),
        is_early_(plan.nodes.size(), false),
        is_dealt_(plan.nodes.size(), false),
        is_aside_(plan.nodes.size(), false),
        gradients_(plan),
        places_(plan),
        free_(processors_, 0),
        over_(plan.buffers.size(), 0),
        read_(plan.buffers.size(), 0) {}
  void run();

 private:
  void begin_region(uint32_t first);
  void deal_next(uint32_t index);
  void deal_boxes(uint32_t first);
  void deal_aside(uint32_t index);
  void deal(uint32_t index);
  void deal_pairs(uint32_t index);
  void deal_runs(uint32_t index);
  void deal_early(uint32_t index);
  void follow(uint32_t index, uint32_t leads);
  bool is_loose(uint32_t index) const;
  void take_places(const Node& node);
  double ready(const Node& node) const;
  uint32_t earliest(const Node& node) const;
  void go_on(const Node& node);
  uint32_t leader(uint32_t index) const;
  bool fills_up(uint32_t index) const;
  uint32_t pairs_of(const Node& node) const;
  struct Takes {   // a task
    double first;  // of its node that a processor has
    double another;
  };
  Takes task_takes(const Node& node) const;
  std::span<const Box> boxes(const Node& node) const {
    return plan_.boxes_of(plan_.tasks[node.first_task]);
  }

  Plan& plan_;
  uint32_t processors_;
  uint32_t next_ = 0;
  uint32_t early_ = 0;        // the same of tiles that are dealt by when processors are free
  uint32_t product_ = kNone;  // the last that was dealt from next_ on, and not to all processors
  std::vector<uint32_t> writer_;  // per buffer: the last node that wrote it
  std::vector<uint32_t> first_;   // per node: the place of its first tile
  std::vector<uint32_t> paired_;  // per node: tiles of a row, if rows are paired; else 0
  std::vector<bool> is_early_;    // per node: dealt by deal_early(), or follows one that was
  std::vector<bool> is_dealt_;
  std::vector<bool> is_aside_;  // per node: dealt by deal_aside()
  // Of nodes of one region, up to this one, where some of these are steps that make their gradients: about what processors have
  // to do, in cycles; and which of them have such a step.
  uint32_t region_end_ = 0;
  bool boxes_are_left_ = false;  // to be dealt
  std::vector<double> load_;
  std::vector<bool> has_box_;
  const LongGradients gradients_;
  PlacesTaken places_;
  // About when, in cycles: a processor is through with what it has; and a buffer's last writer, and its readers.
  std::vector<double> free_;
  std::vector<double> over_;
  std::vector<double> read_;
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
    if (is_early_[writer] && !is_loose(index)) continue;
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

// Of a training step, whose products leave some processors with less than others: what is cut into tiles that need not be where
// what they read was made.
bool Dealer::is_loose(uint32_t index) const {
  const Node& node = plan_.nodes[index];
  const bool is_small =
      node.unit == Unit::optimizer || node.unit == Unit::reduce || node.unit == Unit::move;
  return is_small && node.tasks < processors_ && gradients_.are_beside(index);
}

// A register that is written for the first time is free when nobody needs any more what had its place.
void Dealer::take_places(const Node& node) {
  for (const Box& box : boxes(node)) {
    const bool is_register = plan_.buffers[box.buffer].kind == BufferKind::tensor_register;
    if (!box.write || !is_register || over_[box.buffer] != 0) continue;
    places_.take(box.buffer, [&](uint32_t other) {
      over_[box.buffer] = std::max({over_[box.buffer], over_[other], read_[other]});
    });
  }
}

// When all that a node reads is there, and nobody needs any more what it overwrites.
double Dealer::ready(const Node& node) const {
  double when = 0;
  for (const Box& box : boxes(node))
    when = std::max({when, over_[box.buffer], box.write ? read_[box.buffer] : 0});
  return when;
}

// The place, from next_ on, whose processor can begin with a node first.
uint32_t Dealer::earliest(const Node& node) const {
  const double from = ready(node);
  const uint32_t places = processors_ - 1;
  uint32_t best = next_;
  for (uint32_t i = 0; i < places; ++i) {
    const uint32_t place = (next_ + i) % places;
    if (std::max(from, free_[place + 1]) < std::max(from, free_[best + 1])) best = place;
  }
  return best;
}

// About how long a task takes: until its first instructions and data are there, which is less behind another of its node,
// and then. cycles_of() is for sharing: large products take three quarters of what it says, and what is none a third.
Dealer::Takes Dealer::task_takes(const Node& node) const {
  constexpr double kFirst = 6000;
  constexpr double kAnother = 3000;
  constexpr double kOfProducts = 0.75;
  constexpr double kOfOthers = 1.0 / 3;
  const double part = node.unit == Unit::matrix ? kOfProducts : kOfOthers;
  const double work = part * cycles_of(plan_, node) / node.tasks;
  return {kFirst + work, kAnother + work};
}

// Each tile to the processor that can begin with it first, and of those that can at once to the one that waits for longest;
// else in the order of places from early_ on.
void Dealer::deal_early(uint32_t index) {
  const Node& node = plan_.nodes[index];
  const double from = ready(node);
  const Takes takes = task_takes(node);
  const uint32_t places = processors_ - 1;
  struct Place {
    double begins;
    double is_free;
    uint32_t number;  // from early_ on
    bool has_one;     // a task of this node
    bool operator>(const Place& other) const {
      return std::tuple(begins, is_free, number) >
             std::tuple(other.begins, other.is_free, other.number);
    }
  };
  std::priority_queue<Place, std::vector<Place>, std::greater<>> queue;
  for (uint32_t i = 0; i < places; ++i) {
    const double is_free = free_[(early_ + i) % places + 1];
    queue.push({std::max(is_free, from), is_free, i, false});
  }
  const uint32_t first = early_;
  for (Task& task : std::span(plan_.tasks).subspan(node.first_task, node.tasks)) {
    const Place place = queue.top();
    queue.pop();
    task.processor = (first + place.number) % places + 1;
    early_ = task.processor % places;
    const double over = place.begins + (place.has_one ? takes.another : takes.first);
    queue.push({over, over, place.number, true});
  }
  is_early_[index] = true;
}

// Each tile where that of the node is that it follows, or its last one.
void Dealer::follow(uint32_t index, uint32_t leads) {
  const Node& node = plan_.nodes[index];
  const Node& from = plan_.nodes[leads];
  for (uint32_t i = 0; i < node.tasks; ++i)
    plan_.tasks[node.first_task + i].processor =
        plan_.tasks[from.first_task + std::min(i, from.tasks - 1)].processor;
  is_early_[index] = true;
}

// What is known when a node has been dealt.
void Dealer::go_on(const Node& node) {
  const double from = ready(node);
  const Takes takes = task_takes(node);
  std::vector<bool> has_one(processors_, false);
  double over = 0;
  for (const Task& task : std::span(plan_.tasks).subspan(node.first_task, node.tasks)) {
    double& is_free = free_[task.processor];
    is_free = std::max(is_free, from) + (has_one[task.processor] ? takes.another : takes.first);
    has_one[task.processor] = true;
    over = std::max(over, is_free);
  }
  for (const Box& box : boxes(node)) {
    double& last = box.write ? over_[box.buffer] : read_[box.buffer];
    last = std::max(last, over);
  }
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
  if (is_aside_[index]) return deal_aside(index);
  const uint32_t leads = leader(index);
  if (leads == kNone && is_loose(index)) return deal_early(index);
  if (leads != kNone && is_early_[leads]) return follow(index, leads);
  paired_[index] = leads != kNone ? paired_[leads] : pairs_of(node);
  const bool is_spread = everywhere && node.depth.count == 0;
  const bool is_one_of_several =
      (node.unit == Unit::matrix || node.steps_boxes()) && !everywhere && leads == kNone;
  const bool fills = is_one_of_several && fills_up(index);
  if (is_one_of_several && gradients_.are_beside(index) && !fills) next_ = earliest(node);
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

// Where steps make their gradients, what else is for steps alone: each tile to the processor that has least to do, if there are
// some of those that have no such step.
void Dealer::deal_aside(uint32_t index) {
  const Node& node = plan_.nodes[index];
  const Takes takes = task_takes(node);
  for (Task& task : std::span(plan_.tasks).subspan(node.first_task, node.tasks)) {
    const auto order = [&](uint32_t p) { return std::pair(bool{has_box_[p]}, load_[p]); };
    uint32_t best = processors_ - 1;
    for (uint32_t p = best; p-- > 1;)
      if (order(p) < order(best)) best = p;
    task.processor = best;
    load_[best] += takes.first;
  }
}

// From node `first` on there are others of its region, up to the next one's.
void Dealer::begin_region(uint32_t first) {
  region_end_ = first;
  boxes_are_left_ = false;
  while (region_end_ < plan_.nodes.size() &&
         plan_.nodes[region_end_].region == plan_.nodes[first].region)
    boxes_are_left_ = plan_.nodes[region_end_++].steps_boxes() || boxes_are_left_;
  load_.assign(boxes_are_left_ ? processors_ : 0, 0);
  has_box_.assign(boxes_are_left_ ? processors_ : 0, false);
}

// All steps of the region that make their gradients, of which `first` is the first or in front of it: they take longest of what is
// for steps alone. They come to the processors from the last product's first tile on, since those behind its last have nothing
// else to do.
void Dealer::deal_boxes(uint32_t first) {
  if (product_ != kNone) next_ = first_[product_];
  for (uint32_t n = first; n < region_end_; ++n) {
    const Node& node = plan_.nodes[n];
    if (!node.steps_boxes()) continue;
    deal_next(n);
    for (uint32_t t = node.first_task; t < node.first_task + node.tasks; ++t)
      has_box_[plan_.tasks[t].processor] = true;
  }
  boxes_are_left_ = false;
}

void Dealer::deal_next(uint32_t index) {
  is_dealt_[index] = true;
  const Node& node = plan_.nodes[index];
  if (node.tasks == 0) return;
  if (gradients_.are_beside(index)) take_places(node);
  deal(index);
  if (gradients_.are_beside(index)) go_on(node);
  if (!load_.empty() && !is_aside_[index]) {
    const double takes = task_takes(node).first;
    for (uint32_t t = node.first_task; t < node.first_task + node.tasks; ++t)
      load_[plan_.tasks[t].processor] += takes;
  }
  for (const Box& box : boxes(node))
    if (box.write) writer_[box.buffer] = index;
}

void Dealer::run() {
  const auto nodes = static_cast<uint32_t>(plan_.nodes.size());
  const bool are_made = std::ranges::any_of(plan_.nodes, &Node::steps_boxes);
  const std::vector<bool> is_for_steps =
      are_made ? for_steps_alone(plan_, NodeUses(plan_),
                                 [&](uint32_t n) { return is_short(plan_, plan_.nodes[n]); })
               : std::vector<bool>(nodes, false);
  for (uint32_t n = 0; n < nodes; ++n) {
    if (n == region_end_) begin_region(n);
    if (is_for_steps[n] && boxes_are_left_) deal_boxes(n);
    if (is_dealt_[n]) continue;
    is_aside_[n] = is_for_steps[n] && !load_.empty();
    deal_next(n);
  }
}

}  // namespace

void deal(Plan& plan) { Dealer(plan).run(); }

}  // namespace trek::plan
