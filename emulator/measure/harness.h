// How anything is timed: contenders in turn, round after round, in a changing order.
//
// Machines drift: clocks follow temperature, neighbours come and go. Timing one contender and then the
// other would measure that. Here each round takes one sample of every contender, in an order drawn anew,
// so that whatever drifts meets all of them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "emulator/driver/error.h"
#include "emulator/measure/statistics.h"

namespace trek::measure {

using driver::Done;
using driver::Error;
using driver::Result;
using driver::Status;

struct Contender {
  std::string name;
  // Does the work once and gives its time in seconds (cpu_clock.h, gpu_clock.h).
  std::function<Result<double>()> sample;
};

struct Rounds {
  int warmup = 2;  // rounds whose samples are thrown away
  int count = 30;
  // Stops after the round in which this much time has passed, but not before kLeastRounds.
  double seconds = 60;
  // Nothing is done for so many seconds before each sample: the threads of libraries look for more work for some
  // milliseconds after the last (OpenMP's, OpenBLAS's), on processors that the next contender wants.
  double rest = 0;
};
inline constexpr int kLeastRounds = 5;

struct Series {
  std::string name;
  std::vector<double> seconds;  // one per round
};

// One series per contender, in their order. The first failing sample is the error.
Result<std::vector<Series>> measure_interleaved(std::span<const Contender> contenders,
                                                const Rounds& rounds);

// Ours against a rival, with a second series of the rival for the A/A band.
Result<Comparison> compare(const Contender& ours, const Contender& rival, const Rounds& rounds);

}  // namespace trek::measure
