// What the statistics claim: intervals that hold the truth as often as they say, verdicts that see a
// difference and see none where there is none, and the same answer every time.
#include "emulator/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "emulator/measure/philox.h"

namespace trek::measure {
namespace {

// Times as computers give them: a floor, a skewed spread, now and then an outlier. Median 1 × scale.
std::vector<double> times(uint64_t key, size_t count, double scale = 1) {
  std::vector<double> samples;
  for (size_t i = 0; i < count; ++i) {
    const Philox4 block = philox(key, i);
    const double uniform = (block.lane[0] + 0.5) * 0x1p-32;
    const double spread = 0.02 * (-std::log(uniform) - std::log(2.0));  // exponential, median 0
    const double outlier = block.lane[1] % 50 == 0 ? 0.5 : 0;
    samples.push_back(scale * (1 + spread + outlier));
  }
  return samples;
}

TEST_CASE("Philox gives the published vectors") {
  // Random123's known answers for philox4x32-10.
  const Philox4 zeros = philox(0, 0);
  CHECK(zeros.lane[0] == 0x6627e8d5);
  CHECK(zeros.lane[1] == 0xe169c58d);
  CHECK(zeros.lane[2] == 0xbc57ac4c);
  CHECK(zeros.lane[3] == 0x9b00dbd8);
}

TEST_CASE("random data has mean 0 and variance 1") {
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 100000;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double x = static_cast<double>(random_element(7, i));
    sum += x;
    squares += x * x;
  }
  CHECK(std::abs(sum / kCount) < 0.02);
  CHECK(squares / kCount == Approx(1).margin(0.02));
}

TEST_CASE("a median is the middle sample or the mean of two") {
  CHECK(median(std::vector<double>{3, 1, 2}) == 2);
  CHECK(median(std::vector<double>{4, 1, 3, 2}) == 2.5);
  CHECK(median(std::vector<double>{5}) == 5);
}

TEST_CASE("an outlier does not move a median") {
  std::vector<double> samples = times(1, 31);
  const double before = median(samples);
  *std::max_element(samples.begin(), samples.end()) = 1e9;
  CHECK(median(samples) == before);
}

TEST_CASE("equal samples have an interval of no width") {
  const Estimate one = estimate(std::vector<double>(20, 3.0));
  CHECK(one.median == 3);
  CHECK(one.interval.low == 3);
  CHECK(one.interval.high == 3);
  CHECK(one.samples == 20);
}

TEST_CASE("the same samples give the same interval") {
  const std::vector<double> samples = times(2, 30);
  const Estimate first = estimate(samples);
  const Estimate second = estimate(samples);
  CHECK(first.interval.low == second.interval.low);
  CHECK(first.interval.high == second.interval.high);
  CHECK(first.interval.contains(first.median));
}

TEST_CASE("a 95 % interval holds the true median about 95 times in 100") {
  int held = 0;
  for (uint64_t trial = 0; trial < 400; ++trial) {
    held += estimate(times(100 + trial, 30)).interval.contains(1) ? 1 : 0;
  }
  CHECK(held >= 365);  // 91 %: 4 standard deviations below 95 %
  CHECK(held <= 398);  // an interval that always holds it is too wide
}

TEST_CASE("more samples make a narrower interval") {
  const Interval few = estimate(times(3, 20)).interval;
  const Interval many = estimate(times(3, 500)).interval;
  CHECK(many.high - many.low < (few.high - few.low) / 2);
}

TEST_CASE("a rate turns the interval round") {
  const Estimate seconds = {2, {1, 4}, 9};
  const Estimate rate = seconds.as_rate(8);
  CHECK(rate.median == 4);
  CHECK(rate.interval.low == 2);
  CHECK(rate.interval.high == 8);
  CHECK(rate.samples == 9);
  CHECK(seconds.times(10).interval.high == 40);
}

TEST_CASE("a drift that meets both contenders leaves their ratio alone") {
  std::vector<double> a = times(4, 60);
  std::vector<double> b = times(5, 60, 2);
  for (size_t i = 0; i < a.size(); ++i) {
    const double drift = 1 + static_cast<double>(i) / 20;  // to four times as slow
    a[i] *= drift;
    b[i] *= drift;
  }
  const Estimate drifted = ratio(b, a);
  CHECK(drifted.median == Approx(2).epsilon(0.05));
  CHECK(drifted.interval.high - drifted.interval.low < 0.4);
  // Drawn apart, the same samples say much less.
  const Interval alone = estimate(a).interval;
  CHECK((drifted.interval.high - drifted.interval.low) / drifted.median <
        (alone.high - alone.low) / estimate(a).median);
}

TEST_CASE("equal contenders are no different, nearly always") {
  int different = 0;
  for (uint64_t trial = 0; trial < 200; ++trial) {
    const Comparison result =
        compare(times(1000 + trial, 30), times(2000 + trial, 30), times(3000 + trial, 30));
    CHECK(result.band.contains(1));
    different += result.verdict == Verdict::no_difference ? 0 : 1;
  }
  CHECK(different <= 10);
}

TEST_CASE("a contender that takes a tenth less time is faster, one that takes more is slower") {
  const Comparison faster = compare(times(10, 30, 0.9), times(11, 30), times(12, 30));
  CHECK(faster.verdict == Verdict::faster);
  CHECK(faster.ratio.median == Approx(1 / 0.9).epsilon(0.03));
  const Comparison slower = compare(times(10, 30, 1.1), times(11, 30), times(12, 30));
  CHECK(slower.verdict == Verdict::slower);
  CHECK(name(slower.verdict) == "slower");
}

TEST_CASE("a difference within the A/A band is no difference") {
  // The rival's two series lie 10 % apart, so 5 % says nothing, however narrow its interval.
  const std::vector<double> ours(30, 0.95);
  const std::vector<double> rival(30, 1.0);
  const std::vector<double> again(30, 1.1);
  const Comparison result = compare(ours, rival, again);
  CHECK(result.ratio.interval.low > 1);
  CHECK(result.band.high == Approx(1.1));
  CHECK(result.band.low == Approx(1 / 1.1));
  CHECK(result.verdict == Verdict::no_difference);
  CHECK(compare(std::vector<double>(30, 0.8), rival, again).verdict == Verdict::faster);
}

}  // namespace
}  // namespace trek::measure
