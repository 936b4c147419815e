// From samples to statements: medians, intervals, verdicts.
//
// Times of a computer are skewed and have outliers, so a figure is a median, and its uncertainty a
// percentile bootstrap: the samples are drawn anew with repetition kResamples times, and 95 % of the
// medians so obtained lie in the interval. The drawing is deterministic: the same samples give the same
// interval.
//
// Two contenders are compared by the ratio of their medians over the same rounds (harness.h). A round is
// drawn as a whole, so a clock that drifts moves both alike. How far two series of one and the same
// contender lie apart in that measurement is the A/A band: a difference within it is no difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace trek::measure {

inline constexpr int kResamples = 2000;

struct Interval {
  double low = 0;
  double high = 0;
  bool contains(double value) const { return low <= value && value <= high; }
};

struct Estimate {
  double median = 0;
  Interval interval;  // 95 %
  size_t samples = 0;

  // The same in another unit; or of a rate, numerator ÷ time, whose interval turns round.
  Estimate times(double factor) const;
  Estimate as_rate(double numerator) const;
};

// The middle sample, or the mean of the two in the middle. There must be one.
double median(std::span<const double> samples);

Estimate estimate(std::span<const double> samples);
// What was measured once: without an interval to speak of.
inline Estimate exactly(double value) { return {value, {value, value}, 1}; }

// median(a) ÷ median(b); a[i] and b[i] were measured in round i, and there are as many of each.
Estimate ratio(std::span<const double> a, std::span<const double> b);

enum class Verdict : uint8_t { faster, slower, no_difference };
std::string_view name(Verdict verdict);

struct Comparison {
  Estimate ours;   // seconds
  Estimate rival;  // seconds
  Estimate ratio;  // rival ÷ ours: above 1 where ours is faster
  Interval band;   // of ratios that one contender has with itself here; contains 1
  Verdict verdict = Verdict::no_difference;
};

// Compares series of the same rounds; `again` is a second series of the rival.
Comparison compare(std::span<const double> ours, std::span<const double> rival,
                   std::span<const double> again);

}  // namespace trek::measure
