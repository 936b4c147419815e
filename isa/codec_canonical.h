// The canonical form of a module's tables, which encode() writes and decode() compares against.
//
// Two modules that differ only in how their tables are numbered, in entries that nothing uses, or
// in entries that are there twice have one canonical form. What it is, is said in
// isa/codec_format.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "isa/module.h"

namespace trek::isa {

// Bytes of Module::data and where they lie in the canonical data section.
struct DataChunk {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t size = 0;
};

struct CanonicalModule {
  std::vector<std::string_view> strings;  // [0] is ""; they live in the module
  std::vector<Type> types;
  std::vector<Constant> constants;
  std::vector<Ref> lists;
  std::vector<Ref> words;
  std::vector<Instruction> instructions;  // of init, then of each function
  std::vector<TensorDecl> tensors;
  std::vector<Param> params;
  std::vector<Function> functions;   // init first; their code is in `instructions`
  std::vector<uint32_t> code_sizes;  // instructions of each function, init first
  std::vector<External> externals;
  std::vector<Test> tests;
  std::vector<DataChunk> data;  // ascending by `to`
  uint64_t data_size = 0;
  // For each function (init first) the new number of each value; empty where no number changes.
  std::vector<std::vector<uint32_t>> value_numbers;
};

// Whether the values of a function are its parameters, then what its instructions define, in that
// order.
bool in_definition_order(const Module& module, const Function& function);

// Every index of the module must be in range.
CanonicalModule canonicalise(const Module& module);

// Where embedded data must lie: the offset of the next chunk, given where the one before ended.
inline uint64_t next_data_offset(uint64_t end) {
  return (end + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
}
// The byte count of a test binding's target.
uint64_t binding_size(const Module& module, Ref target);

// A set of distinct items numbered from 0 in order of arrival: a hash table of numbers. The items
// themselves are the caller's; `equal(number)` compares the one at hand with an earlier one.
class Numbering {
 public:
  // The number of an equal item, or `next`, which is then taken as added.
  template <class Equal>
  uint32_t find_or_add(uint64_t hash, uint32_t next, Equal&& equal) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    const auto tag = static_cast<uint32_t>(hash >> 32);
    for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[at];
      if (slot.number == kFree) {
        slot = {hash, next};
        ++count_;
        return next;
      }
      if (static_cast<uint32_t>(slot.hash >> 32) == tag && slot.hash == hash && equal(slot.number))
        return slot.number;
    }
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  struct Slot {
    uint64_t hash = 0;
    uint32_t number = kFree;
  };
  void grow();
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

// Strings numbered by first use. Numbers of the module's strings are remembered, so that each is
// hashed once.
class StringNumbering {
 public:
  explicit StringNumbering(const std::vector<std::string>& strings);
  uint32_t operator()(uint32_t string);
  std::vector<std::string_view> take() { return std::move(texts_); }

 private:
  const std::vector<std::string>& strings_;
  std::vector<uint32_t> known_;
  std::vector<std::string_view> texts_{std::string_view()};
  Numbering numbering_;
};

}  // namespace trek::isa
