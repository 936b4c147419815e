// Time on the host.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace trek::measure {

// Seconds that one call of `work` took.
template <class Work>
double cpu_seconds(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  std::forward<Work>(work)();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// How many calls in a row take `least` seconds: for work so short that one call would measure the clock.
template <class Work>
int calls_lasting(double least, Work&& work) {
  int calls = 1;
  for (;;) {
    const double seconds = cpu_seconds([&] {
      for (int i = 0; i < calls; ++i) work();
    });
    if (seconds >= least || calls >= (1 << 24)) return calls;
    const double factor = seconds > 0 ? least / seconds * 1.2 : 16;
    calls = static_cast<int>(std::min(calls * std::clamp(factor, 1.5, 16.0) + 1, 0x1p24));
  }
}

}  // namespace trek::measure
