#include "emulator/plan/share.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "emulator/plan/node_uses.h"
#include "emulator/plan/product.h"

namespace trek::plan {
namespace {

constexpr uint32_t kLevelsBehind = 4;

// What an H200's processor does in a cycle: multiplications of f32, those of tensor cores in small tiles,
// bytes through a unit, steps of pointwise programs. Guesses; only their proportions matter.
constexpr double kMultiplications = 64;
constexpr double kByTensorCores = 700;  // of 16 bits; of f32 half as many,
constexpr double kTurned =
    0.1;  // and so much of one more for each operand that is turned around on its way
constexpr double kBytes = 12;
constexpr double kSteps = 48;
constexpr double kTask = 1000;  // cycles that a task takes besides
// A node may have a little more than its part, so that it is not just short of one processor for a tile.
constexpr double kMore = 17.0 / 16;

double bytes_of(const isa::Type& type) { return static_cast<double>(type.bytes()); }

// Of a node that sums a part of a product's k: how much of its operands it reads.
double part_of(const Node& node) {
  if (node.depth.count == 0) return 1;
  const MatrixShape shape = matrix_shape(node);
  return static_cast<double>(shape.k) / static_cast<double>(shape.whole_k);
}

// What a node has to do for all rows of its result, in cycles of one processor.
double work_of_all(const Plan& plan, const Node& node) {
  if (node.unit == Unit::control) return kTask;
  double given = 0;
  for (uint32_t result : node.results)
    given += bytes_of(node.put ? node.main_type : plan.views[result].type);
  double bytes = given;
  if (node.unit == Unit::move && node.opcode != isa::Opcode::Reshape) {
    // What is moved is read once. Where it is put into something larger, that is not touched.
    if (node.opcode == isa::Opcode::Update) given = bytes = bytes_of(node.operand_types[1]);
    bytes += given;
  } else {
    for (size_t i = 0; i < node.operands.size(); ++i)
      if (node.operands[i].kind == Operand::Kind::view)
        bytes += bytes_of(node.operand_types[i]) * part_of(node);
  }
  double cycles = kTask + bytes / kBytes;
  if (!node.results.empty()) {
    const auto elements = static_cast<double>(
        std::max(plan.views[node.results[0]].type.elements(),
                 node.operand_types.empty() ? 0 : node.operand_types[0].elements()));
    cycles += elements * static_cast<double>(node.steps()) / kSteps;
  }
  if (node.unit != Unit::matrix) return cycles;
  const MatrixShape shape = matrix_shape(node);
  const double each = static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                      static_cast<double>(shape.k) * static_cast<double>(shape.batches) *
                      static_cast<double>(products_of(node));
  const Product product = product_of(plan, node);
  if (product != Product::tensor && product != Product::small)
    return cycles + each / kMultiplications;
  const auto bytes_of_element = static_cast<double>(isa::byte_size(node.operand_types[0].dtype));
  const bool is_f32 = product == Product::tensor && node.operand_types[0].dtype == isa::DType::f32;
  const double turned = is_f32 ? kTurned * ((shape.ta ? 1 : 0) + (shape.tb ? 0 : 1)) : 0;
  return cycles + each * (1 + turned) * bytes_of_element / (2 * kByTensorCores);
}

double work_of(const Plan& plan, const Node& node) {
  const double all = work_of_all(plan, node);
  if (node.rows.count == 0) return all;
  const isa::Shape& shape = plan.views[node.results[0]].type.shape;
  return all * static_cast<double>(node.rows.count) / static_cast<double>(shape[shape.rank() - 2]);
}

class Levels {
 public:
  explicit Levels(Plan& plan)
      : plan_(plan), written_(plan.buffers.size(), 0), read_(plan.buffers.size(), 0) {}
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
  void find_gradients();
  std::vector<uint32_t> levels_of(uint32_t first, std::span<const double> work) const;
  void share_out(uint32_t first, uint32_t end);

  Plan& plan_;
  // Of a buffer: one above the level of its last writer, and of its readers since.
  std::vector<uint32_t> written_;
  std::vector<uint32_t> read_;
  std::map<int64_t, uint32_t> places_;  // of registers: by offset, whose it is
  std::vector<bool> is_gradient_;       // per node
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

// Products in the dot order that optimizers alone read, where code is made for them.
void Levels::find_gradients() {
  is_gradient_.assign(plan_.nodes.size(), false);
  if (!plan_.device.makes_code() || !has_steps(plan_)) return;
  const NodeUses uses(plan_);
  const auto is_for_steps = [&](uint32_t result) {
    return uses.is_only_for(plan_.views[result].buffer, [&](uint32_t reader) {
      return plan_.nodes[reader].unit == Unit::optimizer;
    });
  };
  for (uint32_t n = 0; n < plan_.nodes.size(); ++n) {
    const Node& node = plan_.nodes[n];
    is_gradient_[n] = node.unit == Unit::matrix && product_of(plan_, node) == Product::ordered &&
                      !node.results.empty() && std::ranges::all_of(node.results, is_for_steps);
  }
}

// The level at which each of the nodes from `first` on, which do so much work, shares the processors. Gradients can wait
// for each other, and stand one behind the other (put_off.h): those that keep all processors busy for long share these as
// if they were of the last one's level, so that together they fill them. What comes behind them, and could have been done long
// before, has all of them; and so has what it could have been done beside.
std::vector<uint32_t> Levels::levels_of(uint32_t first, std::span<const double> work) const {
  constexpr double kLong = 100'000;  // cycles
  const auto end = static_cast<uint32_t>(first + work.size());
  std::vector<uint32_t> levels;
  uint32_t last = 0;       // level of a gradient
  uint32_t last_node = 0;  // and the last of them in the program
  double all = 0;
  for (uint32_t n = first; n < end; ++n) {
    levels.push_back(plan_.nodes[n].level);
    if (!is_gradient_[n]) continue;
    last = std::max(last, levels.back());
    last_node = n;
    all += work[n - first];
  }
  if (all < kLong * plan_.device.processors) return levels;
  uint32_t behind = std::ranges::max(levels);
  for (uint32_t n = first; n < end; ++n) {
    const bool is_late =
        n > last_node && levels[n - first] <= last && plan_.nodes[n].unit != Unit::optimizer;
    if (is_gradient_[n]) levels[n - first] = last;
    if (is_late) levels[n - first] = ++behind;
  }
  return levels;
}

// Nodes [first, end) of one region, between other regions.
void Levels::share_out(uint32_t first, uint32_t end) {
  const uint32_t lowest = plan_.nodes[first].level;
  std::vector<double> work;
  for (uint32_t n = first; n < end; ++n) work.push_back(work_of(plan_, plan_.nodes[n]));
  const std::vector<uint32_t> levels = levels_of(first, work);
  std::vector<double> of_level;
  for (uint32_t n = 0; n < work.size(); ++n) {
    const uint32_t level = levels[n] - lowest;
    if (level >= of_level.size()) of_level.resize(level + 1, 0);
    of_level[level] += work[n];
  }
  for (uint32_t n = first; n < end; ++n) {
    Node& node = plan_.nodes[n];
    const double part = work[n - first] / of_level[levels[n - first] - lowest];
    const double processors = std::min(1.0, part * kMore) * plan_.device.processors;
    node.share = std::max<uint32_t>(1, static_cast<uint32_t>(processors));
  }
}

void Levels::share() {
  find_gradients();
  const auto nodes = static_cast<uint32_t>(plan_.nodes.size());
  uint32_t first = 0;
  for (uint32_t n = 1; n <= nodes; ++n)
    if (n == nodes || plan_.nodes[n].region != plan_.nodes[first].region)
      share_out(std::exchange(first, n), n);
}

// A register that is written for the first time comes after all that had a part of its place.
void Levels::take_place(uint32_t buffer) {
  const Buffer& mine = plan_.buffers[buffer];
  if (mine.kind != BufferKind::tensor_register || written_[buffer] != 0) return;
  auto at = places_.lower_bound(mine.offset);
  const auto reaches = [&](const auto& place) {
    const Buffer& other = plan_.buffers[place.second];
    return other.offset + other.bytes > mine.offset;
  };
  while (at != places_.begin() && reaches(*std::prev(at))) --at;
  for (; at != places_.end() && at->first < mine.offset + mine.bytes; at = places_.erase(at))
    written_[buffer] = std::max({written_[buffer], written_[at->second], read_[at->second]});
  places_[mine.offset] = buffer;
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
