#include "assembler/reporter.h"

#include <algorithm>

#include <fmt/format.h>

namespace trek::assembler {
namespace {

constexpr int kMostNotes = 4;

std::string note_text(const Expansion& expansion) {
  switch (expansion.kind) {
    case Expansion::Kind::include:
      return "included from here";
    case Expansion::Kind::macro:
      return fmt::format("in expansion of macro '{}'", expansion.name);
    case Expansion::Kind::repetition:
      return fmt::format("in the repetition with {} = {}", expansion.name, expansion.value);
    case Expansion::Kind::none:
      return "";
  }
  return "";
}

}  // namespace

uint32_t Reporter::expand(const Expansion& expansion) {
  trail_.push_back(expansion);
  return static_cast<uint32_t>(trail_.size() - 1);
}

void Reporter::report(isa::ErrorCode code, const isa::SourceRange& where, uint32_t expansion,
                      std::string message, std::string help) {
  isa::Problem problem;
  problem.code = code;
  problem.message = std::move(message);
  problem.where = where;
  problem.help = std::move(help);
  add(std::move(problem), expansion);
}

// Whether a problem may be nothing but the consequence of another one.
bool Reporter::is_consequence(isa::ErrorCode code) const {
  using isa::ErrorCode;
  switch (code) {
    case ErrorCode::UnknownName:
    case ErrorCode::UnknownInstruction:
      return text_lost_;
    case ErrorCode::Structure:
    case ErrorCode::Unclosed:
    case ErrorCode::UndefinedValue:
    case ErrorCode::Redefined:
    case ErrorCode::YieldMismatch:
      return unclosed_;
    default:
      return false;
  }
}

bool Reporter::is_news(isa::ErrorCode code, const isa::SourceRange& where,
                       std::string_view message) const {
  if (full() || is_consequence(code)) return false;
  // What repetitions say again and again is said once.
  const auto same = [&](const isa::Problem& other) {
    return other.code == code && other.where.known() && other.where.file == where.file &&
           other.where.line == where.line && other.where.column == where.column &&
           other.message == message;
  };
  return std::none_of(problems_.begin(), problems_.end(), same);
}

void Reporter::add(isa::Problem problem, uint32_t expansion) {
  dropped_ = !is_news(problem.code, problem.where, problem.message);
  if (dropped_) return;
  add_trail(problem, expansion);
  problems_.push_back(std::move(problem));
}

void Reporter::add_trail(isa::Problem& problem, uint32_t expansion) const {
  int left = kMostNotes;
  int more = 0;
  for (; expansion != 0; expansion = trail_[expansion].parent) {
    isa::Note note{note_text(trail_[expansion]), trail_[expansion].where};
    if (left-- > 0) {
      problem.notes.push_back(std::move(note));
    } else {
      ++more;
    }
  }
  if (more > 0) problem.notes.push_back({fmt::format("and {} more", more), {}});
}

}  // namespace trek::assembler
