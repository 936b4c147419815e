#include "emulator/plan/put_off.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "emulator/plan/cycles.h"
#include "emulator/plan/for_steps.h"
#include "emulator/plan/node_uses.h"
#include "isa/ops.h"

namespace trek::plan {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;  // that may be kept for what waits

bool may_trap(const std::vector<MicroStep>& program) {
  return std::ranges::any_of(program, [](const MicroStep& step) { return may_trap(step); });
}
bool may_trap(const Node& node) {
  if (!node.pointwise() && !isa::info(node.opcode).traps.empty()) return true;
  return may_trap(node.prologue) || may_trap(node.chain) ||
         std::ranges::any_of(node.phases, [](const Phase& phase) {
           return may_trap(phase.elements) || may_trap(phase.tail);
         });
}

class Order {
 public:
  explicit Order(Plan& plan)
      : plan_(plan),
        uses_(plan),
        gradients_(plan),
        read_(plan.buffers.size()),
        written_(plan.buffers.size()) {}
  void run();

 private:
  void find_waiting();
  bool can_come_first(uint32_t node, uint32_t first) const;
  void order(uint32_t first, uint32_t end);
  void put(uint32_t node);
  void let_go();
  void let_go_early();
  std::vector<uint32_t> take_waiting();
  bool conflicts(uint32_t node) const;
  int64_t kept_for(uint32_t node) const;
  void set_lives();

  Plan& plan_;
  const NodeUses uses_;
  const LongGradients gradients_;
  std::vector<bool> waits_;  // per node: can be put off

  std::vector<uint32_t> nodes_;    // old numbers, in the new order
  std::vector<uint32_t> waiting_;  // those that are put off so far
  std::vector<bool> read_;         // per buffer: by one of these
  std::vector<bool> written_;
  int64_t kept_ = 0;
  bool traps_ = false;  // one of these may
};

// Steps of optimizers, and what only nodes that wait read, if that is short. Where gradients take long, what several processors
// have a part in stays: it is done while the first of these would wait.
void Order::find_waiting() {
  constexpr double kOfSeveral = 10 * kCyclesOfTask;
  waits_ = for_steps_alone(plan_, uses_, [&](uint32_t n) {
    const Node& node = plan_.nodes[n];
    return is_short(plan_, node) && !may_trap(node) &&
           !(gradients_.are_beside(n) && cycles_of(plan_, node) > kOfSeveral);
  });
}

// Bytes that would have been free but for this node.
int64_t Order::kept_for(uint32_t node) const {
  int64_t bytes = 0;
  for (const uint32_t buffer : uses_.reads(node)) {
    const Buffer& of = plan_.buffers[buffer];
    if (of.kind == BufferKind::tensor_register && uses_.readers(buffer).back() == node &&
        !read_[buffer] && !written_[buffer])
      bytes += of.bytes;
  }
  return bytes;
}

bool Order::conflicts(uint32_t node) const {
  if (traps_ && may_trap(plan_.nodes[node])) return true;
  return std::ranges::any_of(uses_.reads(node),
                             [&](uint32_t buffer) { return written_[buffer]; }) ||
         std::ranges::any_of(uses_.writes(node),
                             [&](uint32_t buffer) { return read_[buffer] || written_[buffer]; });
}

void Order::put(uint32_t node) {
  kept_ += kept_for(node);
  waiting_.push_back(node);
  traps_ = traps_ || may_trap(plan_.nodes[node]);
  for (const uint32_t buffer : uses_.reads(node)) read_[buffer] = true;
  for (const uint32_t buffer : uses_.writes(node)) written_[buffer] = true;
}

std::vector<uint32_t> Order::take_waiting() {
  for (const uint32_t node : waiting_) {
    for (const uint32_t buffer : uses_.reads(node)) read_[buffer] = false;
    for (const uint32_t buffer : uses_.writes(node)) written_[buffer] = false;
  }
  kept_ = 0;
  traps_ = false;
  return std::exchange(waiting_, {});
}

// What waits comes now: steps of optimizers last, where nothing else needs them.
void Order::let_go() {
  for (const uint32_t node : take_waiting()) {
    if (plan_.nodes[node].unit == Unit::optimizer || conflicts(node))
      put(node);
    else
      nodes_.push_back(node);
  }
  std::ranges::copy(take_waiting(), std::back_inserter(nodes_));
}

// Behind the last of long gradients comes first what was put off and waits for none of these: processors that are through with
// theirs sooner do it.
void Order::let_go_early() {
  const auto is_from_long = [&](uint32_t buffer) {
    return std::ranges::any_of(uses_.writers(buffer),
                               [&](uint32_t n) { return gradients_.is_gradient(n); });
  };
  for (const uint32_t node : take_waiting()) {
    if (conflicts(node) || std::ranges::any_of(uses_.reads(node), is_from_long))
      put(node);
    else
      nodes_.push_back(node);
  }
}

// Whether a node may come before all others from `first` on, and beside the first product: what is moved in a step with long
// gradients is then there when it is wanted, by processors that have no tile of that product.
bool Order::can_come_first(uint32_t node, uint32_t first) const {
  const Node& of = plan_.nodes[node];
  if (of.unit != Unit::move || of.results.empty() || may_trap(of) || !gradients_.are_beside(node))
    return false;
  const auto is_between = [&](uint32_t other) { return other >= first && other < node; };
  const auto is_written = [&](uint32_t buffer) {
    return std::ranges::any_of(uses_.writers(buffer), is_between);
  };
  const auto is_used = [&](uint32_t buffer) {
    return is_written(buffer) || std::ranges::any_of(uses_.readers(buffer), is_between);
  };
  return std::ranges::none_of(uses_.reads(node), is_written) &&
         std::ranges::none_of(uses_.writes(node), is_used);
}

// Nodes [first, end) of one region, of which none decides whether others come.
void Order::order(uint32_t first, uint32_t end) {
  std::vector<uint32_t> early;
  for (uint32_t n = first; n < end; ++n)
    if (can_come_first(n, first)) early.push_back(n);
  std::vector<bool> has_come(end - first, false);
  uint32_t last = kNone;  // of long gradients
  for (uint32_t n = first; n < end; ++n)
    if (gradients_.is_gradient(n) && gradients_.are_beside(n)) last = n;
  for (uint32_t n = first; n < end; ++n) {
    if (has_come[n - first]) continue;
    if (!waits_[n]) {
      if (conflicts(n)) let_go();
      nodes_.push_back(n);
      if (plan_.nodes[n].unit != Unit::matrix) continue;
      if (n == last) let_go_early();
      for (const uint32_t other : std::exchange(early, {})) {
        if (other < n) continue;
        nodes_.push_back(other);
        has_come[other - first] = true;
      }
      continue;
    }
    const int64_t bytes = kept_for(n);
    if (kept_ + bytes > kMostBytes) let_go();
    put(n);
    if (bytes > kMostBytes) let_go();
  }
  let_go();
}

// What was alive before a loop and is used in it is so to the loop's end; else lives are from the first use to the last.
void Order::set_lives() {
  std::vector<uint32_t> place(nodes_.size());
  for (uint32_t n = 0; n < nodes_.size(); ++n) place[nodes_[n]] = n;
  std::vector<uint32_t> begin(nodes_.size(), 0);  // of the innermost region that ends with a node
  for (const Region& region : plan_.regions)
    if (region.end_node > region.first_node)
      begin[region.end_node - 1] = std::max(begin[region.end_node - 1], region.first_node);
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    Buffer& buffer = plan_.buffers[b];
    if (buffer.kind != BufferKind::tensor_register) continue;
    if (buffer.first >= begin[buffer.last]) buffer.last = buffer.first = place[buffer.first];
    for (const auto* nodes : {&uses_.readers(b), &uses_.writers(b)})
      for (const uint32_t node : *nodes) {
        buffer.first = std::min(buffer.first, place[node]);
        buffer.last = std::max(buffer.last, place[node]);
      }
  }
}

void Order::run() {
  find_waiting();
  const auto count = static_cast<uint32_t>(plan_.nodes.size());
  for (uint32_t first = 0; first < count;) {
    uint32_t end = first;
    while (end < count && plan_.nodes[end].region == plan_.nodes[first].region &&
           plan_.nodes[end].decides == kNone)
      ++end;
    order(first, end);
    if (end < count && plan_.nodes[end].decides != kNone) nodes_.push_back(end++);
    first = end;
  }
  set_lives();
  std::vector<Node> nodes;
  for (const uint32_t node : nodes_) nodes.push_back(std::move(plan_.nodes[node]));
  plan_.nodes = std::move(nodes);
}

}  // namespace

void put_off(Plan& plan) {
  if (has_steps(plan)) Order(plan).run();
}

}  // namespace trek::plan
