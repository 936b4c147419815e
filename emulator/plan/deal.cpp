#include "emulator/plan/deal.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace trek::plan {
namespace {

class Dealer {
 public:
  explicit Dealer(Plan& plan)
      : plan_(plan),
        processors_(static_cast<uint32_t>(plan.device.processors)),
        writer_(plan.buffers.size(), kNone),
        places_(plan.nodes.size()) {}
  void run();

 private:
  struct Places {
    uint32_t first = 0;
    uint32_t count = 0;
  };
  void deal(uint32_t index);
  uint32_t leader(uint32_t index) const;
  std::span<const Box> boxes(const Node& node) const {
    return plan_.boxes_of(plan_.tasks[node.first_task]);
  }

  Plan& plan_;
  uint32_t processors_;
  uint32_t next_ = 0;
  std::vector<uint32_t> writer_;  // per buffer: the last node that wrote it
  std::vector<Places> places_;    // per node
};

// The last of the nodes whose results a node reads that has as many tasks on as
// many processors, or kNone.
uint32_t Dealer::leader(uint32_t index) const {
  uint32_t found = kNone;
  for (const Box& box : boxes(plan_.nodes[index])) {
    const uint32_t writer = writer_[box.buffer];
    if (box.write || writer == kNone) continue;
    const Node& from = plan_.nodes[writer];
    const bool alike =
        from.tasks == plan_.nodes[index].tasks && places_[writer].count == places_[index].count;
    if (from.unit == Unit::control || !alike) continue;
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
  Places& mine = places_[index];
  mine.count = std::min(node.share, node.tasks);
  const uint32_t leads = leader(index);
  if (leads != kNone)
    mine.first = places_[leads].first;
  else if (mine.count < processors_)
    mine.first = std::exchange(next_, (next_ + mine.count) % (processors_ - 1));
  // Places are processors 1, 2, ... and then the control processor, where there is one for each.
  const uint32_t all = mine.count < processors_ ? processors_ - 1 : processors_;
  for (uint32_t i = 0; i < node.tasks; ++i)
    tasks[i].processor = ((mine.first + i % mine.count) % all + 1) % processors_;
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
