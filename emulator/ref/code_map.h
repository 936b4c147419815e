// What is known of a function's code before it runs: where its regions end, and where each register is
// used for the last time, so that memory is bounded by what is live.
//
// A register that is used inside a region it does not belong to lives until that region is left for
// good: the next trip of a loop may need it, and of an `if` one branch alone would free it.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "isa/module.h"

namespace trek::ref {

inline constexpr uint32_t kNever = UINT32_MAX;

class CodeMap {
 public:
  CodeMap(const isa::Module& module, const isa::Function& function);

  // Of an instruction that opens a region: its `yield`.
  uint32_t end(uint32_t opener) const { return end_[opener]; }
  // Of a yield or a test: the instruction that opened the region.
  uint32_t opener(uint32_t instruction) const { return end_[instruction]; }
  // The last yield of the statement that this instruction opens: of an `if` with `else`, the `else`'s.
  uint32_t statement_end(uint32_t opener) const { return statement_end_[region_of(opener)]; }
  // The registers that a region defines, inner regions included: [first, second).
  std::pair<uint32_t, uint32_t> registers(uint32_t opener) const {
    return {first_register_[region_of(opener)], last_register_[region_of(opener)]};
  }
  // Registers that nothing needs after this instruction.
  std::span<const uint32_t> dead_after(uint32_t instruction) const {
    return list(dead_after_, instruction);
  }
  // Registers that nothing needs after the statement whose last yield this is has been left.
  std::span<const uint32_t> dead_on_exit(uint32_t yield) const {
    return list(dead_on_exit_, yield);
  }
  bool dies_at(uint32_t value, uint32_t instruction) const {
    return last_use_[value] == instruction;
  }

 private:
  // Registers by instruction: those of instruction i are items[begin[i] .. begin[i + 1]).
  struct Lists {
    std::vector<uint32_t> begin;
    std::vector<uint32_t> items;
  };
  static std::span<const uint32_t> list(const Lists& lists, uint32_t i) {
    return std::span(lists.items).subspan(lists.begin[i], lists.begin[i + 1] - lists.begin[i]);
  }
  static Lists collect(const std::vector<uint32_t>& where, size_t instructions);
  uint32_t region_of(uint32_t opener) const { return region_[opener]; }
  void find_regions(const isa::Module& module, const isa::Function& function);
  void find_last_uses(const isa::Module& module, const isa::Function& function);

  std::vector<uint32_t> end_;     // per instruction, see end() and opener()
  std::vector<uint32_t> region_;  // per instruction: the region it opens
  std::vector<uint32_t> parent_;  // per region; region 0 is the function
  std::vector<uint32_t> statement_end_;
  std::vector<uint32_t> first_register_;
  std::vector<uint32_t> last_register_;
  std::vector<uint32_t> home_;        // per instruction: the region it stands in
  std::vector<uint32_t> defined_in_;  // per value: a region
  std::vector<uint32_t> last_use_;    // per value: an instruction, or kNever
  Lists dead_after_;
  Lists dead_on_exit_;
};

}  // namespace trek::ref
