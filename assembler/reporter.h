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
  // Whether it would be added: it is not known already, nor the consequence of one that is.
  bool is_news(isa::ErrorCode code, const isa::SourceRange& where, std::string_view message) const;
  // Some text was not read, for a reason that has been reported: a name that is not known may be
  // defined there, and is no longer a problem.
  void lose_text() { text_lost_ = true; }
  // While a body is read whose '}' is missing, which has been reported: where its parts begin and end is
  // a guess, and that they do not fit is no problem of its own.
  void set_unclosed(bool unclosed) { unclosed_ = unclosed; }
  bool is_unclosed() const { return unclosed_; }
  // Too many: parsing ends.
  bool full() const { return problems_.size() >= kMaxProblems; }
  size_t count() const { return problems_.size(); }
  // The problem reported last, for more notes.
  isa::Problem& last() { return dropped_ ? nowhere_ = {} : problems_.back(); }
  isa::Problems take() { return std::move(problems_); }

 private:
  bool is_consequence(isa::ErrorCode code) const;
  void add_trail(isa::Problem& problem, uint32_t expansion) const;

  std::vector<Expansion> trail_;
  isa::Problems problems_;
  bool text_lost_ = false;
  bool unclosed_ = false;
  bool dropped_ = true;   // the problem reported last is none, or is known already
  isa::Problem nowhere_;  // takes the notes of those
};

}  // namespace trek::assembler
