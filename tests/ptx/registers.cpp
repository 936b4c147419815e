#include "tests/ptx/registers.h"

#include <algorithm>
#include <queue>

namespace trek::ptx {
namespace {

// Statements that are executed one after the other.
struct Block {
  uint32_t first = 0;
  uint32_t end = 0;
  std::vector<uint32_t> next;
};

bool is_branch(const Statement& s) { return s.opcode.starts_with("bra"); }
bool leaves(const Statement& s) {
  return s.opcode.starts_with("ret") || s.opcode == "exit" || s.opcode == "trap";
}
bool adds_to_first(const Statement& s) { return s.opcode.starts_with("wgmma.mma_async"); }

std::vector<Block> blocks_of(const FunctionText& function) {
  const auto& statements = function.statements;
  const auto count = static_cast<uint32_t>(statements.size());
  const auto labels = label_places(function);
  std::vector<uint32_t> starts = {0};
  for (uint32_t i = 0; i < count; ++i) {
    if (!statements[i].labels.empty()) starts.push_back(i);
    if (is_branch(statements[i]) || leaves(statements[i])) starts.push_back(i + 1);
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  while (!starts.empty() && starts.back() >= count) starts.pop_back();
  std::vector<Block> blocks(starts.size());
  const auto block_at = [&](uint32_t statement) {
    return static_cast<uint32_t>(std::upper_bound(starts.begin(), starts.end(), statement) -
                                 starts.begin() - 1);
  };
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    blocks[b].first = starts[b];
    blocks[b].end = b + 1 < blocks.size() ? starts[b + 1] : count;
    const Statement& last = statements[blocks[b].end - 1];
    if (is_branch(last)) {
      const auto target = labels.find(last.operands.at(0).name);
      if (target == labels.end())
        throw TextError(last.line, "no label " + std::string(last.operands[0].name));
      if (target->second < count) blocks[b].next.push_back(block_at(target->second));
    }
    const bool goes_on = (!is_branch(last) && !leaves(last)) || last.guard.kind != Written::none;
    if (goes_on && b + 1 < blocks.size()) blocks[b].next.push_back(b + 1);
  }
  return blocks;
}

// Calls reads(register) for what a statement reads, then writes(register, is_partial) for what it writes.
template <typename Reads, typename Writes>
void each_register(const Statement& s, Reads reads, Writes writes) {
  const size_t defined = definitions(s);
  const bool is_partial = s.guard.kind != Written::none;
  if (s.guard.kind == Written::reg) reads(s.guard.index);
  const size_t first_group = s.groups.empty() ? 0 : s.groups[0];
  for (size_t i = 0; i < s.operands.size(); ++i) {
    if (s.operands[i].kind != Written::reg) continue;
    if (i >= defined || (adds_to_first(s) && i < first_group)) reads(s.operands[i].index);
  }
  for (size_t i = 0; i < defined; ++i)
    if (s.operands[i].kind == Written::reg) writes(s.operands[i].index, is_partial);
}

using Bits = std::vector<uint64_t>;
bool has(const Bits& bits, uint32_t i) { return (bits[i / 64] >> i % 64 & 1) != 0; }
void add(Bits& bits, uint32_t i) { bits[i / 64] |= uint64_t{1} << i % 64; }

constexpr uint32_t kNowhere = UINT32_MAX;

// From where to where a register is alive in the text, jumps included.
struct Range {
  uint32_t first = kNowhere;
  uint32_t last = 0;
  void add(uint32_t at) {
    first = std::min(first, at);
    last = std::max(last, at);
  }
};

class Liveness {
 public:
  explicit Liveness(const FunctionText& function)
      : function_(function), blocks_(blocks_of(function)), ranges_(function.registers.size()) {
    number_shared();
    gather();
    spread();
  }
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  // Most registers live in one block, written before they are read; the others get a number for the sets.
  void number_shared() {
    std::vector<uint32_t> home(ranges_.size(), kNowhere);
    number_.assign(ranges_.size(), kNowhere);
    const auto share = [&](uint32_t reg) {
      if (number_[reg] == kNowhere) number_[reg] = shared_++;
    };
    for (uint32_t b = 0; b < blocks_.size(); ++b) {
      for (uint32_t i = blocks_[b].first; i < blocks_[b].end; ++i) {
        each_register(
            function_.statements[i],
            [&](uint32_t reg) {
              if (home[reg] != b) share(reg);
              ranges_[reg].add(i);
            },
            [&](uint32_t reg, bool is_partial) {
              if ((home[reg] != kNowhere && home[reg] != b) || is_partial) share(reg);
              home[reg] = b;
              ranges_[reg].add(i);
            });
      }
    }
  }

  void gather() {
    const size_t words = (shared_ + 63) / 64;
    reads_.assign(blocks_.size(), Bits(words));
    writes_ = in_ = reads_;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      for (uint32_t i = blocks_[b].first; i < blocks_[b].end; ++i) {
        each_register(
            function_.statements[i],
            [&](uint32_t reg) {
              if (number_[reg] != kNowhere && !has(writes_[b], number_[reg]))
                add(reads_[b], number_[reg]);
            },
            [&](uint32_t reg, bool is_partial) {
              if (number_[reg] == kNowhere) return;
              if (!is_partial)
                add(writes_[b], number_[reg]);
              else if (!has(writes_[b], number_[reg]))
                add(reads_[b], number_[reg]);
            });
      }
    }
  }

  // What is alive where blocks begin and end, until nothing changes.
  void spread() {
    std::vector<uint32_t> register_of(shared_);
    for (uint32_t reg = 0; reg < number_.size(); ++reg)
      if (number_[reg] != kNowhere) register_of[number_[reg]] = reg;
    const size_t words = (shared_ + 63) / 64;
    Bits out(words);
    const auto out_of = [&](size_t b) {
      std::fill(out.begin(), out.end(), 0);
      for (uint32_t next : blocks_[b].next)
        for (size_t w = 0; w < words; ++w) out[w] |= in_[next][w];
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = blocks_.size(); b-- > 0;) {
        out_of(b);
        for (size_t w = 0; w < words; ++w) {
          const uint64_t in = reads_[b][w] | (out[w] & ~writes_[b][w]);
          changed |= in != in_[b][w];
          in_[b][w] = in;
        }
      }
    }
    const auto mark = [&](const Bits& alive, uint32_t at) {
      for (size_t w = 0; w < words; ++w)
        for (uint64_t rest = alive[w]; rest != 0; rest &= rest - 1)
          ranges_[register_of[w * 64 + static_cast<size_t>(__builtin_ctzll(rest))]].add(at);
    };
    for (size_t b = 0; b < blocks_.size(); ++b) {
      mark(in_[b], blocks_[b].first);
      out_of(b);
      mark(out, blocks_[b].end - 1);
    }
  }

  const FunctionText& function_;
  std::vector<Block> blocks_;
  std::vector<Range> ranges_;
  std::vector<uint32_t> number_;
  uint32_t shared_ = 0;
  std::vector<Bits> reads_;  // before it is written
  std::vector<Bits> writes_;
  std::vector<Bits> in_;
};

// Gives slots to the registers of one class, in the order in which they come alive.
uint32_t allot(const FunctionText& function, const std::vector<Range>& ranges, Class of,
               std::vector<Operand>& slots) {
  std::vector<uint32_t> order;
  for (uint32_t reg = 0; reg < ranges.size(); ++reg)
    if (function.registers[reg] == of && ranges[reg].first != kNowhere) order.push_back(reg);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return ranges[a].first < ranges[b].first; });
  using Taken = std::pair<uint32_t, Operand>;  // until when, which
  std::priority_queue<Taken, std::vector<Taken>, std::greater<>> taken;
  std::vector<Operand> free;
  uint32_t count = 0;
  for (uint32_t reg : order) {
    // What an instruction reads last keeps its slot from what it writes.
    while (!taken.empty() && taken.top().first < ranges[reg].first) {
      free.push_back(taken.top().second);
      taken.pop();
    }
    if (free.empty()) free.push_back(static_cast<Operand>(count++));
    slots[reg] = free.back();
    free.pop_back();
    taken.emplace(ranges[reg].last, slots[reg]);
  }
  return count;
}

}  // namespace

size_t definitions(const Statement& statement) {
  static constexpr std::string_view kNone[] = {"st.",
                                               "red.",
                                               "bar",
                                               "bra",
                                               "ret",
                                               "exit",
                                               "call",
                                               "cp.",
                                               "fence",
                                               "membar",
                                               "nanosleep",
                                               "prefetch",
                                               "trap",
                                               "mbarrier.init",
                                               "mbarrier.inval",
                                               "griddepcontrol",
                                               "setmaxnreg",
                                               "wgmma.fence",
                                               "wgmma.commit",
                                               "wgmma.wait"};
  for (std::string_view none : kNone)
    if (statement.opcode.starts_with(none)) return 0;
  return statement.groups.empty() ? 0 : statement.groups[0];
}

std::map<std::string_view, uint32_t> label_places(const FunctionText& function) {
  std::map<std::string_view, uint32_t> places;
  for (uint32_t i = 0; i < function.statements.size(); ++i)
    for (std::string_view label : function.statements[i].labels) places[label] = i;
  for (std::string_view label : function.labels_at_end)
    places[label] = static_cast<uint32_t>(function.statements.size());
  return places;
}

Slots allot_slots(const FunctionText& function) {
  const Liveness liveness(function);
  Slots slots;
  slots.of.assign(function.registers.size(), 0);
  slots.predicates = allot(function, liveness.ranges(), Class::predicate, slots.of);
  slots.words = allot(function, liveness.ranges(), Class::word, slots.of);
  slots.longs = allot(function, liveness.ranges(), Class::wide, slots.of);
  return slots;
}

}  // namespace trek::ptx
