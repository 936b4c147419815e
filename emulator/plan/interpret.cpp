#include "emulator/plan/interpret.h"

#include <algorithm>

#include <fmt/format.h>

#include "emulator/plan/evaluate.h"

namespace trek::plan {
namespace {

// What a region has, in program order: nodes of its own, and inner regions.
struct Item {
  bool is_region = false;
  uint32_t index = 0;
};

std::vector<std::vector<Item>> items_of(const Plan& plan) {
  std::vector<std::vector<uint32_t>> children(plan.regions.size());
  for (uint32_t r = 1; r < plan.regions.size(); ++r) children[plan.regions[r].parent].push_back(r);
  std::vector<std::vector<Item>> items(plan.regions.size());
  for (uint32_t r = 0; r < plan.regions.size(); ++r) {
    size_t child = 0;
    for (uint32_t node = plan.regions[r].first_node;;) {
      if (child < children[r].size() && plan.regions[children[r][child]].first_node == node) {
        const uint32_t inner = children[r][child++];
        items[r].push_back({true, inner});
        node = plan.regions[inner].end_node;
        continue;
      }
      if (node >= plan.regions[r].end_node) break;
      items[r].push_back({false, node++});
    }
  }
  return items;
}

// A processor: where it is in the regions, and how often it has been where.
struct Processor {
  struct Frame {
    uint32_t region = 0;
    uint32_t item = 0;
    uint64_t trip = 0;
    Decision decision;  // by which it was entered
  };
  std::vector<Frame> frames;
  std::vector<uint32_t> queue;      // its tasks
  std::vector<uint64_t> epochs;     // per region: trips begun
  std::vector<uint64_t> passed;     // per node: decisions read
  std::vector<Decision> decisions;  // per node: the last one read
  uint32_t task = kNone;            // the next of the node it is at, once it is known
  std::optional<std::vector<std::byte>> standing;  // of the task it is at, when it came there
  bool halted = false;
};

// A dynamic instance's place in program order: items and trips from the root down.
using Moment = std::vector<uint64_t>;

class Machine {
 public:
  Machine(const Plan& plan, std::span<std::byte> arena, const InterpretOptions& options);
  Interpreted run();

 private:
  enum class Progress : uint8_t { moved, blocked, finished };
  Progress advance(Processor& p);
  Progress at_node(Processor& p, uint32_t index);
  Progress at_region(Processor& p, uint32_t index);
  Progress at_end(Processor& p);
  uint64_t trip(const Processor& p) const;
  bool may_begin(const Processor& p, const Task& task) const;
  std::vector<std::byte> standing_bytes(const Processor& p, const Task& task) const;
  bool execute(Processor& p, uint32_t index);
  void begin_trip(Processor& p);
  Moment moment(const Processor& p) const;
  std::string stuck() const;
  uint64_t random() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  const Plan& plan_;
  const InterpretOptions& options_;
  std::vector<std::vector<Item>> items_;
  std::vector<Processor> processors_;
  std::vector<uint64_t> counters_;
  std::vector<std::vector<Decision>> log_;  // per node: every decision it made
  Work::World world_;
  Interpreted result_;
  Moment trap_moment_;
  uint64_t state_;
};

Machine::Machine(const Plan& plan, std::span<std::byte> arena, const InterpretOptions& options)
    : plan_(plan),
      options_(options),
      items_(items_of(plan)),
      processors_(static_cast<size_t>(plan.device.processors)),
      counters_(plan.counters.size(), 0),
      log_(plan.nodes.size()),
      state_(options.order_seed) {
  for (Processor& p : processors_) {
    p.epochs.assign(plan.regions.size(), 0);
    p.passed.assign(plan.nodes.size(), 0);
    p.decisions.resize(plan.nodes.size());
    p.frames.push_back({});
    begin_trip(p);
  }
  for (uint32_t t = 0; t < plan.tasks.size(); ++t)
    processors_[plan.tasks[t].processor].queue.push_back(t);
  std::fill(arena.begin() + static_cast<std::ptrdiff_t>(plan.fixed_bytes), arena.end(),
            std::byte{0xA5});
  world_.arena = arena;
  world_.random_seed = options.random_seed;
  world_.next = options.next;
  world_.emit = [this](std::string_view name, const isa::Type& type,
                       std::span<const std::byte> bytes) {
    result_.emitted.push_back({std::string(name), type, {bytes.begin(), bytes.end()}});
  };
}

// The control processor counts for all.
void Machine::begin_trip(Processor& p) {
  const uint32_t region = p.frames.back().region;
  ++p.epochs[region];
  if (&p != processors_.data()) return;
  result_.instructions += plan_.regions[region].instructions;
  if (options_.instruction_limit != 0 && result_.instructions > options_.instruction_limit)
    result_.failure = "instruction limit";
}

Moment Machine::moment(const Processor& p) const {
  Moment moment;
  for (const Processor::Frame& frame : p.frames) {
    moment.push_back(frame.trip);
    moment.push_back(frame.item);
  }
  return moment;
}

// The innermost loop's.
uint64_t Machine::trip(const Processor& p) const {
  uint64_t trip = 0;
  for (const Processor::Frame& frame : p.frames)
    if (plan_.regions[frame.region].is_loop()) trip = frame.trip;
  return trip;
}

bool Machine::may_begin(const Processor& p, const Task& task) const {
  for (const Wait& wait : plan_.waits_of(task)) {
    if (wait.first_trip && trip(p) > 0) continue;
    const uint64_t epoch = p.epochs[plan_.counters[wait.counter].region];
    if (epoch > wait.delta && counters_[wait.counter] < wait.count * (epoch - wait.delta))
      return false;
  }
  return true;
}

// What a task reads of its node's operands that stand there before it waits (Node::standing).
std::vector<std::byte> Machine::standing_bytes(const Processor& p, const Task& task) const {
  std::vector<std::byte> bytes;
  const Node& node = plan_.nodes[task.node];
  if (node.standing == 0 || trip(p) == 0) return bytes;
  for (const Box& box : plan_.boxes_of(task)) {
    if (box.write || box.empty()) continue;
    bool stands = false;
    for (size_t i = 0; i < node.operands.size(); ++i)
      stands =
          stands || (node.stands(i) && plan_.view(node.operands[i].index).buffer == box.buffer);
    for (int64_t row = 0; stands && row < box.rows; ++row) {
      const auto from = world_.arena.begin() + (box.begin + row * box.stride);
      bytes.insert(bytes.end(), from, from + box.row_bytes);
    }
  }
  return bytes;
}

// Runs a task; false where it trapped.
bool Machine::execute(Processor& p, uint32_t index) {
  const Task& task = plan_.tasks[index];
  Decision decision;
  world_.decision = &decision;
  world_.counter = [&p](uint32_t region) {
    for (const Processor::Frame& frame : p.frames)
      if (frame.region == region)
        return static_cast<int64_t>(static_cast<uint64_t>(frame.decision.from) +
                                    frame.trip * static_cast<uint64_t>(frame.decision.step));
    return int64_t{0};
  };
  ++result_.tasks;
  std::optional<Executed> executed;
  if (options_.execute) executed = options_.execute(index, world_.arena, world_.counter);
  Faulted fault;
  if (!executed) {
    Work work(plan_, task, world_);
    fault = evaluate(work);
  } else if (executed->code != isa::TrapCode::None) {
    fault = Fault{executed->code, executed->element};
  }
  if (fault) {
    const Node& node = plan_.nodes[task.node];
    const Moment now = moment(p);
    const bool first = !result_.trap || now < trap_moment_ ||
                       (now == trap_moment_ && fault->element < result_.trap->element);
    if (first) {
      result_.trap = PlanTrap{fault->code, node.function, node.instruction, fault->element};
      trap_moment_ = now;
    }
    return false;
  }
  if (plan_.nodes[task.node].decides != kNone) log_[task.node].push_back(decision);
  for (uint32_t counter : plan_.signals_of(task)) ++counters_[counter];
  return true;
}

Machine::Progress Machine::at_node(Processor& p, uint32_t index) {
  const Node& node = plan_.nodes[index];
  if (p.task == kNone) p.task = node.first_task;
  const auto next = std::lower_bound(p.queue.begin(), p.queue.end(), p.task);
  if (next != p.queue.end() && *next < node.first_task + node.tasks) {
    // After a trap only what precedes it in program order goes on.
    if (result_.trap && moment(p) > trap_moment_) {
      p.halted = true;
      return Progress::finished;
    }
    const Task& task = plan_.tasks[*next];
    if (!p.standing) p.standing = standing_bytes(p, task);
    if (!may_begin(p, task)) return Progress::blocked;
    if (!result_.trap && *p.standing != standing_bytes(p, task))
      result_.failure = fmt::format(
          "what stands in memory before a task of node {} ({}) waits changed while it did", index,
          isa::info(node.opcode).mnemonic);
    p.standing.reset();
    if (!execute(p, *next)) {
      p.halted = true;
      return Progress::finished;
    }
    p.task = *next + 1;
    return Progress::moved;
  }
  if (node.decides != kNone) {
    if (log_[index].size() <= p.passed[index]) return Progress::blocked;
    p.decisions[index] = log_[index][p.passed[index]++];
  }
  p.task = kNone;
  ++p.frames.back().item;
  return Progress::moved;
}

Machine::Progress Machine::at_region(Processor& p, uint32_t index) {
  const Region& region = plan_.regions[index];
  const Decision known =
      region.static_trips ? Decision{region.from, region.step, region.trips} : Decision{0, 0, 1};
  const Decision decision = region.decision == kNone ? known : p.decisions[region.decision];
  const bool enters =
      region.kind == RegionKind::otherwise ? decision.trips == 0 : decision.trips > 0;
  if (enters) {
    p.frames.push_back({index, 0, 0, decision});
    begin_trip(p);
    return Progress::moved;
  }
  if (region.kind == RegionKind::rest) p.frames.pop_back();  // the test failed: the while ends
  ++p.frames.back().item;
  return Progress::moved;
}

Machine::Progress Machine::at_end(Processor& p) {
  Processor::Frame& frame = p.frames.back();
  const Region& region = plan_.regions[frame.region];
  const bool again = region.kind == RegionKind::repeat ||
                     (region.kind == RegionKind::loop && frame.trip + 1 < frame.decision.trips);
  if (again) {
    ++frame.trip;
    frame.item = 0;
    begin_trip(p);
    return Progress::moved;
  }
  p.frames.pop_back();
  if (p.frames.empty()) return Progress::finished;
  ++p.frames.back().item;
  return Progress::moved;
}

Machine::Progress Machine::advance(Processor& p) {
  if (p.halted || p.frames.empty()) return Progress::finished;
  // A processor without tasks in an endless loop must see a trap too.
  if (result_.trap && moment(p) > trap_moment_) {
    p.halted = true;
    return Progress::finished;
  }
  const Processor::Frame& frame = p.frames.back();
  const std::vector<Item>& items = items_[frame.region];
  if (frame.item >= items.size()) return at_end(p);
  const Item item = items[frame.item];
  return item.is_region ? at_region(p, item.index) : at_node(p, item.index);
}

std::string Machine::stuck() const {
  std::string text = "stuck:";
  for (size_t i = 0; i < processors_.size(); ++i) {
    const Processor& p = processors_[i];
    if (p.halted || p.frames.empty()) continue;
    const Item item = items_[p.frames.back().region][p.frames.back().item];
    text += fmt::format("\n  processor {} waits at node {} ({})", i, item.index,
                        isa::info(plan_.nodes[item.index].opcode).mnemonic);
    const auto next = std::lower_bound(p.queue.begin(), p.queue.end(), p.task);
    if (next == p.queue.end()) continue;
    for (const Wait& wait : plan_.waits_of(plan_.tasks[*next]))
      text += fmt::format(", counter {} at {} wants {} x ({} - {})", wait.counter,
                          counters_[wait.counter], wait.count,
                          p.epochs[plan_.counters[wait.counter].region], wait.delta);
  }
  return text;
}

Interpreted Machine::run() {
  std::vector<uint32_t> ready(processors_.size());
  for (uint32_t i = 0; i < ready.size(); ++i) ready[i] = i;
  size_t blocked =
      0;  // processors at the front of `ready` that could not move since anything changed
  while (!ready.empty()) {
    const size_t pick = blocked + random() % (ready.size() - blocked);
    Processor& p = processors_[ready[pick]];
    bool moved = false;
    Progress progress = Progress::blocked;
    // A short run of its steps, so that the others come to very different places.
    for (uint64_t burst = random() % 8 + 1; burst > 0; --burst) {
      progress = advance(p);
      if (progress != Progress::moved) break;
      moved = true;
    }
    if (!world_.violation.empty()) result_.failure = world_.violation;
    if (options_.task_limit != 0 && result_.tasks >= options_.task_limit)
      result_.failure = "task limit";
    if (!result_.failure.empty()) return std::move(result_);
    if (moved) blocked = 0;
    if (progress == Progress::finished) {
      std::swap(ready[pick], ready.back());
      ready.pop_back();
      blocked = 0;
    } else if (progress == Progress::blocked && !moved) {
      std::swap(ready[pick], ready[blocked++]);
    }
    if (blocked == ready.size() && !ready.empty()) {
      if (!result_.trap) result_.failure = stuck();
      break;
    }
  }
  return std::move(result_);
}

}  // namespace

Interpreted interpret(const Plan& plan, std::span<std::byte> arena,
                      const InterpretOptions& options) {
  return Machine(plan, arena, options).run();
}

std::span<std::byte> tensor_bytes(const Plan& plan, std::span<std::byte> arena, uint32_t tensor) {
  const Buffer& buffer = plan.buffers[tensor];
  return arena.subspan(static_cast<size_t>(buffer.offset), static_cast<size_t>(buffer.bytes));
}

std::span<std::byte> param_bytes(const Plan& plan, std::span<std::byte> arena, uint32_t param) {
  for (const Buffer& buffer : plan.buffers)
    if (buffer.kind == BufferKind::param && buffer.source == param)
      return arena.subspan(static_cast<size_t>(buffer.offset), static_cast<size_t>(buffer.bytes));
  return {};
}

}  // namespace trek::plan
