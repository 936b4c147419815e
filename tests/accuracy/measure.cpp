#include "tests/accuracy/measure.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "isa/semantics/target.h"
#include "tests/accuracy/samples.h"

// How it works. Inputs come in blocks, each a function of its number alone, so that the result does
// not depend on the number of threads. A block holds runs of neighbouring numbers where
// monotonicity is judged. Every output is compared with the filter, a wider type's libm; what the
// filter calls a new maximum is decided by MPFR, and so is a random choice of inputs, which shows
// how far the filter itself can be trusted (`filter_error`).
//
// An error below 1.5 ulp means that the result is the correctly rounded one or its neighbour.

namespace trek::accuracy {
namespace {

constexpr std::size_t kBlock = 1 << 16;
constexpr std::size_t kRun = 16;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The spacing of T at a number of this exponent, at least that of `scale`.
template <typename T>
int ulp_exponent(int exponent, double scale) {
  int e = std::max(exponent, std::numeric_limits<T>::min_exponent - 1);
  if (scale > 0) e = std::max(e, std::ilogb(scale));
  e = std::min(e, std::numeric_limits<T>::max_exponent - 1);
  return e - (std::numeric_limits<T>::digits - 1);
}

// |y - reference| in ulp. Beyond the largest number a value counts as 2^max_exponent, where an
// infinite y stands. The kind of result must be right: NaN, and the sign of a zero where the error
// is not measured against a scale.
double error_ulp(float y, double reference, double scale) {
  if (std::isnan(y) || std::isnan(reference)) {
    return std::isnan(y) && std::isnan(reference) ? 0 : kInfinite;
  }
  if (y == 0 && scale == 0 && std::signbit(y) != std::signbit(reference)) return kInfinite;
  const double top = 0x1p128;
  const double r = std::clamp(reference, -top, top);
  const double wide = std::clamp(static_cast<double>(y), -top, top);
  constexpr std::uint64_t kExponent = 0x7ff0000000000000;
  double power = std::bit_cast<double>(std::bit_cast<std::uint64_t>(r) & kExponent);
  power = std::min(std::max({power, 0x1p-126, scale}), 0x1p127);
  return std::fabs(wide - r) / (power * 0x1p-23);
}

double error_ulp(double y, long double reference, double scale) {
  if (std::isnan(y) || std::isnan(reference)) {
    return std::isnan(y) && std::isnan(reference) ? 0 : kInfinite;
  }
  if (y == 0 && scale == 0 && std::signbit(y) != std::signbit(reference)) return kInfinite;
  const long double top = 0x1p1024L;
  const long double r = std::clamp(reference, -top, top);
  const long double wide = std::clamp(static_cast<long double>(y), -top, top);
  std::uint16_t field = 0;
  std::memcpy(&field, reinterpret_cast<const char*>(&r) + 8, 2);
  const int ulp = ulp_exponent<double>((field & 0x7fff) - 16383, scale);
  // 2^-ulp may be beyond double (ulp >= -1074), not beyond long double.
  return static_cast<double>(std::fabs(wide - r) * std::ldexp(1.0L, -ulp));
}

template <typename T>
double exact_error_ulp(T y, const Real& reference, double scale) {
  if (std::isnan(y) || isnan(reference)) return std::isnan(y) && isnan(reference) ? 0 : kInfinite;
  if (y == 0 && scale == 0 && std::signbit(y) != signbit(reference)) return kInfinite;
  constexpr int kTop = std::numeric_limits<T>::max_exponent;
  const auto clamp = [](const Real& x) {
    Real top;
    mpfr_set_si_2exp(top.get(), 1, kTop, MPFR_RNDN);
    if (x > top) return top;
    return x < -top ? -top : x;
  };
  const Real r = clamp(reference);
  const int exponent = r == Real(0) ? -5000 : static_cast<int>(mpfr_get_exp(r.get())) - 1;
  Real error = fabs(clamp(Real(static_cast<double>(y))) - r);
  mpfr_mul_2si(error.get(), error.get(), -ulp_exponent<T>(exponent, scale), MPFR_RNDN);
  return mpfr_get_d(error.get(), MPFR_RNDN);
}

template <typename T>
class Meter {
 public:
  // `known` is the greatest error found so far: only a greater one is worth MPFR's time.
  Meter(const Function<T>& function, double sample_rate, std::uint64_t seed, double known)
      : f_(function), random_(seed ^ 0xabcdef), sample_rate_(sample_rate), max_(known) {}

  // Measures count inputs; numbers in the same run of `run` are neighbours (0: no runs).
  void block(const T* x, const T* z, std::size_t count, std::size_t run) {
    y_.resize(count);
    filter_.resize(count);
    f_.evaluate(x, z, y_.data(), count);
    f_.filter(x, z, filter_.data(), count);
    errors_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      errors_[i] = error_ulp(y_[i], filter_[i], f_.scale);
    }
    // One confirmation per block is enough: the filter's order of the inputs is that of the exact
    // errors but for its own error.
    const auto top = static_cast<std::size_t>(
        std::distance(errors_.begin(), std::max_element(errors_.begin(), errors_.end())));
    if (count > 0 && errors_[top] > max_) confirm(x[top], z[top], y_[top], filter_[top]);
    const auto checks =
        static_cast<std::size_t>(static_cast<double>(count) * sample_rate_ + random_.unit());
    for (std::size_t n = 0; n < checks; ++n) {
      const std::size_t i = random_.below(count);
      confirm(x[i], z[i], y_[i], filter_[i]);
    }
    if (f_.trend != Trend::kNone && run > 1) {
      for (std::size_t i = 0; i + 1 < count; ++i) {
        if ((i + 1) % run != 0) order(x[i], x[i + 1], y_[i], y_[i + 1]);
      }
    }
    inputs_ += count;
  }

  void report(Result& result) const {
    result.inputs += inputs_;
    if (max_ > result.max_ulp) {
      result.max_ulp = max_;
      result.at = at_;
    }
    if (!broken_at_.empty()) {
      result.monotone = false;
      if (result.broken_at.empty() || broken_at_ < result.broken_at) result.broken_at = broken_at_;
    }
    result.exact_checks += exact_checks_;
    result.filter_error = std::max(result.filter_error, filter_error_);
  }

 private:
  void confirm(T x, T z, T y, Wider<T> filter) {
    const Real truth = f_.exact(Real(static_cast<double>(x)), Real(static_cast<double>(z)));
    const double exact = exact_error_ulp(y, truth, f_.scale);
    const double filtered = error_ulp(y, filter, f_.scale);
    ++exact_checks_;
    // Both infinite (a wrong kind) is agreement; inf - inf is NaN and is not greater.
    if (exact != filtered) filter_error_ = std::max(filter_error_, std::fabs(exact - filtered));
    if (exact > max_) {
      max_ = exact;
      at_ = f_.second == Second::kNone ? name(x) : fmt::format("{} {}", name(x), name(z));
    }
  }

  // x0 and x1 are neighbours in their bits.
  void order(T x0, T x1, T y0, T y1) {
    if (!(x0 == x0 && x1 == x1 && y0 == y0 && y1 == y1)) return;
    const bool up = (x0 < x1) == (f_.trend == Trend::kRising);
    if (x0 != x1 && (up ? y0 > y1 : y0 < y1)) {
      if (broken_at_.empty()) broken_at_ = name(x0);
    }
  }

  static std::string name(T x) { return fmt::format("0x{:0{}x}", to_bits(x), 2 * sizeof(T)); }

  const Function<T>& f_;
  Random random_;
  double sample_rate_;
  double max_;
  std::vector<T> y_;
  std::vector<double> errors_;
  std::vector<Wider<T>> filter_;
  std::uint64_t inputs_ = 0;
  std::uint64_t exact_checks_ = 0;
  double filter_error_ = 0;
  std::string at_;
  std::string broken_at_;
};

// Every stride-th run of neighbouring binary32 numbers, all of them for stride 1.
std::uint64_t exhaustive_blocks(std::uint64_t stride) {
  const std::uint64_t runs = ((std::uint64_t{1} << 32) / kRun + stride - 1) / stride;
  return (runs * kRun + kBlock - 1) / kBlock;
}

std::size_t fill_exhaustive(std::vector<float>& x, std::uint64_t block, std::uint64_t stride) {
  std::size_t count = 0;
  for (std::uint64_t run = block * (kBlock / kRun); count < kBlock; ++run) {
    const std::uint64_t first = run * stride * kRun;
    if (first >= (std::uint64_t{1} << 32)) break;
    for (std::size_t i = 0; i < kRun; ++i) {
      x[count++] = from_bits<float>(static_cast<std::uint32_t>(first + i));
    }
  }
  return count;
}

}  // namespace

bool Result::holds() const { return max_ulp <= bound && (!judged || monotone); }

template <typename T>
Result measure(const Function<T>& function, const Plan& plan) {
  const bool exhaustive = sizeof(T) == 4 && function.second == Second::kNone;
  const std::uint64_t blocks =
      exhaustive ? exhaustive_blocks(plan.stride) : (plan.samples + kBlock - 1) / kBlock;
  Result result;
  result.function = function.name;
  result.type = sizeof(T) == 4 ? "f32" : "f64";
  result.bound = function.bound;
  result.scale = function.scale;
  result.judged = function.trend != Trend::kNone;

  // Some 2^20 of the inputs go to MPFR in a full run, and never more than one in 256.
  const double total = static_cast<double>(blocks) * kBlock;
  const double rate =
      std::min(0x1p20 / std::max(total, 1.0), 1.0 / 256) * (plan.stride > 1 ? 1.0 / 64 : 1.0);
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  const auto work = [&] {
    std::vector<T> x(kBlock);
    std::vector<T> z(kBlock);
    for (std::uint64_t block = next++; block < blocks; block = next++) {
      std::size_t count = kBlock;
      std::size_t run = 2;
      if constexpr (sizeof(T) == 4) {
        if (exhaustive) {
          count = fill_exhaustive(x, block, plan.stride);
          // With stride 1 the whole block is one run.
          run = plan.stride == 1 ? kBlock : kRun;
        }
      }
      if (!exhaustive) {
        // Pairs of neighbours, so that monotonicity is judged here too.
        Random random(block);
        for (std::size_t i = 0; i < kBlock; i += 2) {
          x[i] = first_argument(random, function);
          x[i + 1] = from_bits<T>(to_bits(x[i]) + 1);
          if (function.second == Second::kNone) continue;
          z[i] = second_argument(random, function, x[i]);
          z[i + 1] = second_argument(random, function, x[i + 1]);
        }
      }
      double known = 0;
      {
        const std::lock_guard<std::mutex> lock(mutex);
        known = result.max_ulp;
      }
      Meter<T> meter(function, rate, block, known);
      meter.block(x.data(), z.data(), count, run);
      const std::lock_guard<std::mutex> lock(mutex);
      meter.report(result);
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(plan.threads);
  for (unsigned i = 0; i < plan.threads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();

  // The neighbourhoods; in an exhaustive run they are among the inputs already.
  if (exhaustive && plan.stride == 1) {
    // The seams between blocks.
    std::vector<T> x;
    for (std::uint64_t block = 1; block < blocks; ++block) {
      const Bits<T> first = static_cast<Bits<T>>(block * kBlock);
      x.push_back(from_bits<T>(first - 1));
      x.push_back(from_bits<T>(first));
    }
    Meter<T> meter(function, 0, 1, result.max_ulp);
    meter.block(x.data(), x.data(), x.size(), 2);
    Result seams;
    meter.report(seams);
    seams.inputs = 0;
    if (!seams.monotone) {
      result.monotone = false;
      result.broken_at = seams.broken_at;
    }
    return result;
  }
  Meter<T> meter(function, 0.001, 2, result.max_ulp);
  if (function.second == Second::kNone) {
    const std::vector<T> x = neighbourhoods(function);
    meter.block(x.data(), x.data(), x.size(), 0);
  } else {
    std::vector<T> x;
    std::vector<T> z;
    for (const T a : special_values<T>()) {
      for (const T b : special_values<T>()) {
        x.push_back(a);
        z.push_back(b);
      }
    }
    meter.block(x.data(), z.data(), x.size(), 0);
  }
  meter.report(result);
  return result;
}

template Result measure<float>(const Function<float>&, const Plan&);
template Result measure<double>(const Function<double>&, const Plan&);

}  // namespace trek::accuracy
