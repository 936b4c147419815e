#include "hostlib/run/units.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

namespace trek::run {
namespace {

// Three significant digits: 1.23, 12.3, 123.
std::string three_digits(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

// `value` in the greatest of units that are `base` apart and in which it is at least 1.
template <size_t N>
std::string scaled(double value, double base, const std::array<std::string_view, N>& units) {
  size_t unit = 0;
  while (unit + 1 < N && value >= base * 0.9995) {
    value /= base;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), units[unit]);
}

}  // namespace

std::string time_text(uint64_t nanoseconds) {
  if (nanoseconds < 1000) return fmt::format("{} ns", nanoseconds);
  constexpr std::array<std::string_view, 3> kUnits = {"µs", "ms", "s"};
  return scaled(static_cast<double>(nanoseconds) / 1e3, 1e3, kUnits);
}

std::string rate_text(uint64_t amount, uint64_t nanoseconds, const char* unit) {
  if (amount == 0 || nanoseconds == 0) return "-";
  constexpr std::array<std::string_view, 5> kPrefixes = {"", "k", "M", "G", "T"};
  return scaled(static_cast<double>(amount) * 1e9 / static_cast<double>(nanoseconds), 1e3,
                kPrefixes) +
         unit;
}

std::string bytes_text(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  return scaled(static_cast<double>(bytes) / 1024, 1024, kUnits);
}

std::string count_text(uint64_t count) {
  const std::string digits = fmt::format("{}", count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ' ';
    text += digits[i];
  }
  return text;
}

std::string percent_text(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace trek::run
