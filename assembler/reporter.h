// Where problems are collected, and the trail of expansions that led to a place.
//
// Each macro call, repetition and include adds an entry to the trail; what is parsed within it carries
// the entry's number, so that a problem can say how its line came to be read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assembler/source.h"
#include "assembler/token.h"
#include "isa/result.h"

namespace trek::assembler {

inline constexpr size_t kMaxProblems = 100;

struct Expansion {
  enum class Kind : uint8_t { none, include, macro, repetition };
  Kind kind = Kind::none;
  uint32_t parent = 0;
  std::string_view name;   // of the macro, or of a repetition's variable
  int64_t value = 0;       // of that variable
  isa::SourceRange where;  // of the call
};

class Reporter {
 public:
  Reporter() : trail_(1) {}

  // Entry 0 is the file that was asked for.
  uint32_t expand(const Expansion& expansion);
  const Expansion& expansion(uint32_t number) const { return trail_[number]; }

  void report(isa::ErrorCode code, const isa::SourceRange& where, uint32_t expansion,
              std::string message, std::string help = "");
  void add(isa::Problem problem, uint32_t expansion);
  // Too many: parsing ends.
  bool full() const { return problems_.size() >= kMaxProblems; }
  size_t count() const { return problems_.size(); }
  // The problem reported last, for more notes.
  isa::Problem& last() { return full() ? overflow_ : problems_.back(); }
  isa::Problems take() { return std::move(problems_); }

 private:
  void add_trail(isa::Problem& problem, uint32_t expansion) const;

  std::vector<Expansion> trail_;
  isa::Problems problems_;
  isa::Problem overflow_;
};

}  // namespace trek::assembler
