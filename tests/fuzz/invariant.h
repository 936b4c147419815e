// How a fuzzer says that something it found is wrong: what is printed ends up in the log beside the
// input.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace trek::fuzz {

inline void must_hold(bool condition, std::string_view what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace trek::fuzz
