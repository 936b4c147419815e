#include "emulator/measure/harness.h"

#include <chrono>
#include <numeric>
#include <thread>

#include "emulator/measure/philox.h"

namespace trek::measure {
namespace {

// The order of round `round`: a permutation of 0 .. count - 1 (Fisher and Yates).
std::vector<size_t> order_of(size_t count, int round) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = count; i > 1; --i) {
    const uint32_t draw = philox(static_cast<uint64_t>(round), i).lane[0];
    std::swap(order[i - 1], order[uint64_t{draw} * i >> 32]);
  }
  return order;
}

}  // namespace

Result<std::vector<Series>> measure_interleaved(std::span<const Contender> contenders,
                                                const Rounds& rounds) {
  using Clock = std::chrono::steady_clock;
  std::vector<Series> all;
  for (const Contender& contender : contenders) all.push_back({contender.name, {}});
  const Clock::time_point begin = Clock::now();
  for (int round = -rounds.warmup; round < rounds.count; ++round) {
    for (const size_t which : order_of(contenders.size(), round)) {
      if (rounds.rest > 0) std::this_thread::sleep_for(std::chrono::duration<double>(rounds.rest));
      const Result<double> seconds = contenders[which].sample();
      if (!seconds) return seconds.error();
      if (round >= 0) all[which].seconds.push_back(*seconds);
    }
    const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
    if (round + 1 >= kLeastRounds && passed > rounds.seconds) break;
  }
  return all;
}

Result<Comparison> compare(const Contender& ours, const Contender& rival, const Rounds& rounds) {
  const Contender contenders[] = {ours, rival, rival};
  const Result<std::vector<Series>> series = measure_interleaved(contenders, rounds);
  if (!series) return series.error();
  return compare((*series)[0].seconds, (*series)[1].seconds, (*series)[2].seconds);
}

}  // namespace trek::measure
