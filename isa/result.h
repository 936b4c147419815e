// Errors as values: Problem, Problems and Result<T>.
//
// A Problem says what is wrong with something a user wrote, where, what was found and what was wanted.
// Functions that can find several collect them in a Problems; functions that give a value or fail
// return Result<T>. No exception is part of any interface. Where a problem lies is a SourceRange when
// it came from text; a front end renders it (assembler/diagnostics.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trek::isa {

enum class ErrorCode : uint8_t {
#define TREK_ERROR(Id, code, sentence) Id,
#include "isa/errors.def"
#undef TREK_ERROR
};

std::string_view code(ErrorCode error);      // "shape-mismatch"
std::string_view sentence(ErrorCode error);  // what the code stands for
inline constexpr int kErrorCount = 0
#define TREK_ERROR(Id, code, sentence) +1
#include "isa/errors.def"
#undef TREK_ERROR
    ;

// A range of one line of a source file. Lines and columns count from 1, columns in bytes; line 0 means
// that the place is not known.
struct SourceRange {
  uint32_t file = 0;  // index into the source manager's, or the module's, list of files
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t length = 0;
  bool known() const { return line != 0; }
};

// A second place that belongs to a problem: an earlier definition, a macro call, an include.
struct Note {
  std::string message;
  SourceRange where;
};

struct Problem {
  ErrorCode code = ErrorCode::UnexpectedToken;
  std::string message;
  SourceRange where;
  std::string place;  // where no source is known: "function main, instruction 12 (matmul)"
  std::vector<Note> notes;
  std::string help;  // "did you mean 'matmul'?"
};

using Problems = std::vector<Problem>;

// A value or the problems that prevented it.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}               // NOLINT(google-explicit-constructor)
  Result(Problems problems) : state_(std::move(problems)) {}  // NOLINT(google-explicit-constructor)
  Result(Problem problem) : state_(Problems{std::move(problem)}) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  T&& take() { return std::move(std::get<0>(state_)); }
  const Problems& problems() const { return std::get<1>(state_); }
  Problems&& take_problems() { return std::move(std::get<1>(state_)); }

 private:
  std::variant<T, Problems> state_;
};

// The guest faults, with the numbers of traps.def.
enum class TrapCode : uint8_t {
  None = 0,
#define TREK_TRAP(Id, number, name, sentence) Id = number,
#include "isa/traps.def"
#undef TREK_TRAP
};
std::string_view name(TrapCode trap);
std::string_view sentence(TrapCode trap);

// The candidate nearest to a misspelt word, or "" where none is near enough to suggest.
std::string nearest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace trek::isa
