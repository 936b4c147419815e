#include "isa/result.h"

#include <algorithm>
#include <numeric>

namespace trek::isa {

std::string_view code(ErrorCode error) {
  switch (error) {
#define TREK_ERROR(Id, code, sentence) \
  case ErrorCode::Id:                  \
    return code;
#include "isa/errors.def"
#undef TREK_ERROR
  }
  return "unknown";
}

std::string_view sentence(ErrorCode error) {
  switch (error) {
#define TREK_ERROR(Id, code, sentence) \
  case ErrorCode::Id:                  \
    return sentence;
#include "isa/errors.def"
#undef TREK_ERROR
  }
  return "";
}

std::string_view name(TrapCode trap) {
  switch (trap) {
    case TrapCode::None:
      return "none";
#define TREK_TRAP(Id, number, name, sentence) \
  case TrapCode::Id:                          \
    return name;
#include "isa/traps.def"
#undef TREK_TRAP
  }
  return "unknown";
}

std::string_view sentence(TrapCode trap) {
  switch (trap) {
    case TrapCode::None:
      return "";
#define TREK_TRAP(Id, number, name, sentence) \
  case TrapCode::Id:                          \
    return sentence;
#include "isa/traps.def"
#undef TREK_TRAP
  }
  return "";
}

namespace {

// Damerau–Levenshtein distance (optimal string alignment): insertions, deletions, substitutions and
// swaps of neighbours each count one.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr size_t kLongestWord = 64;  // longer ones are not typing errors, and would cost time
  if (word.size() > kLongestWord) return "";
  const size_t allowed = std::max<size_t>(1, word.size() / 3);
  size_t best = allowed + 1;
  std::string_view found;
  for (std::string_view candidate : candidates) {
    if (candidate.size() > kLongestWord || candidate == word) continue;
    const size_t distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return std::string(found);
}

}  // namespace trek::isa
