#include "emulator/measure/statistics.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "emulator/measure/philox.h"

namespace trek::measure {
namespace {

constexpr uint64_t kKey = 0x7472656b;  // any fixed number

// Draws of `count` indices with repetition, resample after resample.
class Drawing {
 public:
  explicit Drawing(size_t count) : count_(count) {}

  void next(std::vector<size_t>& indices) {
    indices.resize(count_);
    for (size_t& index : indices) {
      if (used_ == 4) {
        block_ = philox(kKey, counter_++);
        used_ = 0;
      }
      index = static_cast<size_t>(uint64_t{block_.lane[used_++]} * count_ >> 32);
    }
  }

 private:
  size_t count_;
  uint64_t counter_ = 0;
  Philox4 block_{};
  int used_ = 4;
};

double median_in_place(std::vector<double>& samples) {
  const size_t middle = samples.size() / 2;
  std::nth_element(samples.begin(), samples.begin() + static_cast<ptrdiff_t>(middle),
                   samples.end());
  const double upper = samples[middle];
  if (samples.size() % 2 == 1) return upper;
  const double lower =
      *std::max_element(samples.begin(), samples.begin() + static_cast<ptrdiff_t>(middle));
  return (lower + upper) / 2;
}

double median_of(std::span<const double> samples, std::span<const size_t> indices,
                 std::vector<double>& scratch) {
  scratch.clear();
  for (const size_t index : indices) scratch.push_back(samples[index]);
  return median_in_place(scratch);
}

// The interval that holds 95 % of a statistic over resamples of `count` rounds.
Interval bootstrap(size_t count, const std::function<double(std::span<const size_t>)>& statistic) {
  std::vector<double> values;
  std::vector<size_t> indices;
  Drawing drawing(count);
  for (int i = 0; i < kResamples; ++i) {
    drawing.next(indices);
    values.push_back(statistic(indices));
  }
  std::sort(values.begin(), values.end());
  constexpr size_t kTail = kResamples / 40;  // 2.5 %
  return {values[kTail], values[kResamples - 1 - kTail]};
}

}  // namespace

Estimate Estimate::times(double factor) const {
  return {median * factor, {interval.low * factor, interval.high * factor}, samples};
}

Estimate Estimate::as_rate(double numerator) const {
  return {numerator / median, {numerator / interval.high, numerator / interval.low}, samples};
}

double median(std::span<const double> samples) {
  std::vector<double> copy(samples.begin(), samples.end());
  return median_in_place(copy);
}

Estimate estimate(std::span<const double> samples) {
  std::vector<double> scratch;
  const Interval interval = bootstrap(samples.size(), [&](std::span<const size_t> indices) {
    return median_of(samples, indices, scratch);
  });
  return {median(samples), interval, samples.size()};
}

Estimate ratio(std::span<const double> a, std::span<const double> b) {
  std::vector<double> scratch;
  const Interval interval = bootstrap(a.size(), [&](std::span<const size_t> indices) {
    return median_of(a, indices, scratch) / median_of(b, indices, scratch);
  });
  return {median(a) / median(b), interval, a.size()};
}

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::no_difference:
      break;
  }
  return "no difference";
}

Comparison compare(std::span<const double> ours, std::span<const double> rival,
                   std::span<const double> again) {
  Comparison result;
  result.ours = estimate(ours);
  result.rival = estimate(rival);
  result.ratio = ratio(rival, ours);
  // Which of the two equal series stands above is chance, so the band is taken both ways.
  const Interval self = ratio(rival, again).interval;
  result.band = {std::min({self.low, 1 / self.high, 1.0}),
                 std::max({self.high, 1 / self.low, 1.0})};
  if (result.ratio.interval.low > result.band.high) result.verdict = Verdict::faster;
  if (result.ratio.interval.high < result.band.low) result.verdict = Verdict::slower;
  return result;
}

}  // namespace trek::measure
