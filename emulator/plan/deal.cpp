#include "emulator/plan/deal.h"

#include <span>
#include <utility>
#include <vector>

#include "emulator/plan/product.h"

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
        first_(plan.nodes.size(), 0) {}
  void run();

 private:
  void deal(uint32_t index);
  uint32_t leader(uint32_t index) const;
  std::span<const Box> boxes(const Node& node) const {
    return plan_.boxes_of(plan_.tasks[node.first_task]);
  }

  Plan& plan_;
  uint32_t processors_;
  uint32_t next_ = 0;
  std::vector<uint32_t> writer_;  // per buffer: the last node that wrote it
  std::vector<uint32_t> first_;   // per node: the place of its first tile
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

void Dealer::deal(uint32_t index) {
  const Node& node = plan_.nodes[index];
  const std::span tasks = std::span(plan_.tasks).subspan(node.first_task, node.tasks);
  if (node.unit == Unit::control) {
    for (Task& task : tasks) task.processor = plan_.control();
    return;
  }
  const bool everywhere = node.tasks >= processors_;
  const uint32_t places = everywhere ? processors_ : processors_ - 1;
  const uint32_t leads = leader(index);
  if (leads != kNone)
    first_[index] = first_[leads];
  else if (!everywhere || node.depth.count != 0)
    first_[index] = std::exchange(next_, (next_ + node.tasks) % places);
  else if (node.tasks % places != 0)  // the places behind it have a tile less than the others
    next_ = node.tasks % places % (processors_ - 1);
  // Places are processors 1, 2, ... and then the control processor, where each has a tile.
  for (uint32_t i = 0; i < node.tasks; ++i)
    tasks[i].processor = ((first_[index] + i) % places + 1) % processors_;
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
