#include "emulator/plan/share.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "emulator/plan/cycles.h"
#include "emulator/plan/for_steps.h"
#include "emulator/plan/place.h"

namespace trek::plan {
namespace {

constexpr uint32_t kLevelsBehind = 4;

// A node may have a little more than its part, so that it is not just short of one processor for a tile; but not steps that
// come together, which are to leave some for what is small and was put off with them.
constexpr double kMore = 17.0 / 16;
// Of so many processors steps that make their gradients leave one to what is short and for steps alone.
constexpr int kAside = 8;

class Levels {
 public:
  explicit Levels(Plan& plan)
      : plan_(plan),
        written_(plan.buffers.size(), 0),
        read_(plan.buffers.size(), 0),
        places_(plan),
        gradients_(plan) {}
  void run(bool placed) {
    find(placed);
    if (!plan_.nodes.empty()) share();
  }

 private:
  void find(bool placed);
  void share();
  void take_place(uint32_t buffer);
  template <typename F>
  void each_read(const Node& node, F&& f) const;
  template <typename F>
  void each_write(const Node& node, F&& f) const;
  std::vector<uint32_t> levels_of(uint32_t first, uint32_t end) const;
  void share_out(uint32_t first, uint32_t end);

  Plan& plan_;
  // Of a buffer: one above the level of its last writer, and of its readers since.
  std::vector<uint32_t> written_;
  std::vector<uint32_t> read_;
  PlacesTaken places_;
  const LongGradients gradients_;
};

template <typename F>
void Levels::each_read(const Node& node, F&& f) const {
  const auto read = [&](const Operand& operand) {
    if (operand.kind == Operand::Kind::view) f(plan_.views[operand.index].buffer);
  };
  for (const Operand& operand : node.operands) read(operand);
  for (const Attribute& attribute : node.attributes)
    for (const Operand& item : attribute.items) read(item);
}

template <typename F>
void Levels::each_write(const Node& node, F&& f) const {
  const isa::OpInfo& op = isa::info(node.opcode);
  for (uint32_t result : node.results) f(plan_.views[result].buffer);
  for (size_t i = 0; i < node.own_operands && i < op.operands.size(); ++i)
    if (op.operands[i].access == isa::Access::inout && node.operands[i].kind == Operand::Kind::view)
      f(plan_.views[node.operands[i].index].buffer);
}

// The level at which each of the nodes [first, end) shares the processors. Gradients can wait for each other: those that keep
// all processors busy for long share these as if they were of the last one's level, so that together they fill them; and so do
// steps, and those that make their gradients at once. What else is for steps alone has all of them, and so has what it could have
// been done beside.
std::vector<uint32_t> Levels::levels_of(uint32_t first, uint32_t end) const {
  std::vector<uint32_t> levels;
  uint32_t last = 0;  // of a gradient
  uint32_t made = 0;  // of a step that makes its own
  for (uint32_t n = first; n < end; ++n) {
    levels.push_back(plan_.nodes[n].level);
    if (gradients_.is_gradient(n)) last = std::max(last, levels.back());
    if (plan_.nodes[n].makes_gradient()) made = std::max(made, levels.back());
  }
  for (uint32_t n = first; n < end; ++n)
    if (plan_.nodes[n].makes_gradient()) levels[n - first] = made;
  if (!gradients_.are_beside(first)) return levels;
  const uint32_t steps = std::ranges::max(levels) + 1;
  uint32_t aside = steps + 1;
  for (uint32_t n = first; n < end; ++n) {
    if (gradients_.is_gradient(n)) levels[n - first] = last;
    if (gradients_.is_aside(n)) levels[n - first] = aside++;
    if (plan_.nodes[n].unit == Unit::optimizer) levels[n - first] = steps;
  }
  return levels;
}

// Nodes [first, end) of one region, between other regions.
void Levels::share_out(uint32_t first, uint32_t end) {
  const uint32_t lowest = plan_.nodes[first].level;
  std::vector<double> work;
  for (uint32_t n = first; n < end; ++n) work.push_back(cycles_of(plan_, plan_.nodes[n]));
  const std::vector<uint32_t> levels = levels_of(first, end);
  std::vector<double> of_level;
  for (uint32_t n = 0; n < work.size(); ++n) {
    const uint32_t level = levels[n] - lowest;
    if (level >= of_level.size()) of_level.resize(level + 1, 0);
    of_level[level] += work[n];
  }
  const int all_but_aside = plan_.device.processors - plan_.device.processors / kAside;
  for (uint32_t n = first; n < end; ++n) {
    Node& node = plan_.nodes[n];
    const double part = work[n - first] / of_level[levels[n - first] - lowest];
    double processors = std::min(1.0, part * kMore) * plan_.device.processors;
    if (node.unit == Unit::optimizer && !node.makes_gradient())  // alone, but beside long gradients
      processors = (gradients_.are_beside(n) ? part : 1) * plan_.device.processors;
    if (node.makes_gradient()) processors = part * all_but_aside;
    node.share = std::max<uint32_t>(1, static_cast<uint32_t>(processors));
  }
}

void Levels::share() {
  const auto nodes = static_cast<uint32_t>(plan_.nodes.size());
  uint32_t first = 0;
  for (uint32_t n = 1; n <= nodes; ++n)
    if (n == nodes || plan_.nodes[n].region != plan_.nodes[first].region)
      share_out(std::exchange(first, n), n);
}

// A register that is written for the first time comes after all that had a part of its place.
void Levels::take_place(uint32_t buffer) {
  if (plan_.buffers[buffer].kind != BufferKind::tensor_register || written_[buffer] != 0) return;
  places_.take(buffer, [&](uint32_t other) {
    written_[buffer] = std::max({written_[buffer], written_[other], read_[other]});
  });
}

void Levels::find(bool placed) {
  uint32_t first = 0;    // of the nodes of one region at hand
  uint32_t lowest = 0;   // level that a node there may have
  uint32_t highest = 0;  // so far
  for (uint32_t n = 0; n < plan_.nodes.size(); ++n) {
    Node& node = plan_.nodes[n];
    if (node.region != plan_.nodes[first].region) {
      first = n;
      lowest = ++highest;
    }
    const uint32_t recent = highest < kLevelsBehind ? 0 : highest - kLevelsBehind;
    node.level = std::max(lowest, recent);
    if (placed) each_write(node, [&](uint32_t buffer) { take_place(buffer); });
    const auto after = [&](uint32_t level) { node.level = std::max(node.level, level); };
    each_read(node, [&](uint32_t buffer) { after(written_[buffer]); });
    each_write(node, [&](uint32_t buffer) { after(std::max(written_[buffer], read_[buffer])); });
    each_read(node,
              [&](uint32_t buffer) { read_[buffer] = std::max(read_[buffer], node.level + 1); });
    each_write(node, [&](uint32_t buffer) {
      written_[buffer] = node.level + 1;
      read_[buffer] = 0;
    });
    highest = std::max(highest, node.level);
  }
}

}  // namespace

void find_levels(Plan& plan) { Levels(plan).run(false); }

void share(Plan& plan) { Levels(plan).run(true); }

}  // namespace trek::plan
