// Softmax, log-softmax, cross-entropy and their gradients. Short rows make one run for exp, so that
// vectors are full.
#include "emulator/kernels/loops.h"
#include "isa/semantics/exponential.h"
#include "isa/semantics/logarithm.h"
#include "isa/semantics/reduce.h"
#include "isa/semantics/rounding.h"

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {

// The order does not matter to a maximum: sixteen at a time.
template <class C>
C greatest(const C* x, int64_t n) {
  constexpr int64_t kLanes = 16;
  C lane[kLanes];
  for (int64_t j = 0; j < kLanes; ++j) lane[j] = x[least(j, n - 1)];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) lane[j] = semantics::max(lane[j], x[i + j]);
  for (; i < n; ++i) lane[0] = semantics::max(lane[0], x[i]);
  C most = lane[0];
  for (int64_t j = 1; j < kLanes; ++j) most = semantics::max(most, lane[j]);
  return most;
}

template <class C>
void exp_run(C* r, const C* x, int64_t n) {
  TREK_VECTORISE
  for (int64_t i = 0; i < n; ++i) r[i] = semantics::exp(x[i]);
}

// shifted = x - max of its row, for rows of n.
template <class C>
void shift_rows(C* shifted, const C* x, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, x += n, shifted += n) {
    const C most = greatest(x, n);
    TREK_VECTORISE
    for (int64_t i = 0; i < n; ++i) shifted[i] = x[i] - most;
  }
}

template <class C>
void softmax_as(const SoftmaxRows& task) {
  const int64_t n = task.n;
  auto* r = reinterpret_cast<C*>(task.r);
  shift_rows(r, reinterpret_cast<const C*>(task.x), task.rows, n);
  exp_run(r, r, task.rows * n);
  for (int64_t row = 0; row < task.rows; ++row, r += n) {
    const C sum = reduce_sum(r, n);
    TREK_VECTORISE
    for (int64_t i = 0; i < n; ++i) r[i] = r[i] / sum;
  }
}

struct Add {
  template <class C>
  C operator()(C a, C b) const {
    return a + b;
  }
};

// The sum of the exponentials of a row, without a place for all of them.
template <class C>
C sum_of_exp(const C* shifted, int64_t n) {
  alignas(64) C scratch[kTile];
  static_assert(kTile == semantics::kReductionTile);
  if (n <= kTile) {
    exp_run(scratch, shifted, n);
    return reduce_sum(scratch, n);
  }
  semantics::Ordered<C, Add> tiles{Add{}};
  for (int64_t at = 0; at < n; at += kTile) {
    const int64_t run = least(kTile, n - at);
    exp_run(scratch, shifted + at, run);
    tiles.push(reduce_sum(scratch, run));
  }
  return tiles.finish(C(0));
}

template <class C>
void log_softmax_as(const SoftmaxRows& task) {
  const int64_t n = task.n;
  auto* r = reinterpret_cast<C*>(task.r);
  shift_rows(r, reinterpret_cast<const C*>(task.x), task.rows, n);
  for (int64_t row = 0; row < task.rows; ++row, r += n) {
    const C log_sum = semantics::log(sum_of_exp(r, n));
    TREK_VECTORISE
    for (int64_t i = 0; i < n; ++i) r[i] = r[i] - log_sum;
  }
}

template <class C>
void softmax_grad_as(const SoftmaxGradRows& task) {
  const int64_t n = task.n;
  for (int64_t row = 0; row < task.rows; ++row) {
    const C* dy = reinterpret_cast<const C*>(task.dy) + row * n;
    const C* y = reinterpret_cast<const C*>(task.y) + row * n;
    C* r = reinterpret_cast<C*>(task.r) + row * n;
    TREK_VECTORISE
    for (int64_t i = 0; i < n; ++i) r[i] = dy[i] * y[i];
    const C d = reduce_sum(r, n);
    TREK_VECTORISE
    for (int64_t i = 0; i < n; ++i) r[i] = y[i] * (dy[i] - d);
  }
}

template <class C>
void log_softmax_grad_as(const SoftmaxGradRows& task) {
  const int64_t n = task.n;
  for (int64_t row = 0; row < task.rows; ++row) {
    const C* dy = reinterpret_cast<const C*>(task.dy) + row * n;
    const C* y = reinterpret_cast<const C*>(task.y) + row * n;
    C* r = reinterpret_cast<C*>(task.r) + row * n;
    const C s = reduce_sum(dy, n);
    TREK_VECTORISE
    for (int64_t i = 0; i < n; ++i) r[i] = dy[i] - semantics::exp(y[i]) * s;
  }
}

template <class C>
void cross_entropy_as(const CrossEntropyRows& task) {
  const int64_t n = task.n;
  const C count = static_cast<C>(task.count);
  auto* g = reinterpret_cast<C*>(task.gradient);
  auto* loss = reinterpret_cast<C*>(task.loss);
  const auto* factor = reinterpret_cast<const C*>(task.factor);
  shift_rows(g, reinterpret_cast<const C*>(task.z), task.rows, n);
  for (int64_t row = 0; loss != nullptr && row < task.rows; ++row)
    loss[row] = g[row * n + task.classes[row]];
  exp_run(g, g, task.rows * n);
  for (int64_t row = 0; row < task.rows; ++row, g += n) {
    const C sum = reduce_sum(g, n);
    if (loss != nullptr) loss[row] = semantics::log(sum) - loss[row];
    if (!task.wants_gradient) continue;
    TREK_VECTORISE
    for (int64_t i = 0; i < n; ++i) g[i] = g[i] / sum;
    g[task.classes[row]] -= C(1);
    for (int64_t i = 0; task.mean && i < n; ++i) g[i] = g[i] / count;
    if (factor == nullptr) continue;
    const C times = factor[row * task.factor_stride];
    for (int64_t i = 0; i < n; ++i) g[i] = times * g[i];
  }
}

}  // namespace

void softmax_rows(const SoftmaxRows& rows) {
  with_compute(rows.lane, [&](auto tag) { softmax_as<typename decltype(tag)::Type>(rows); });
}

void log_softmax_rows(const SoftmaxRows& rows) {
  with_compute(rows.lane, [&](auto tag) { log_softmax_as<typename decltype(tag)::Type>(rows); });
}

void softmax_grad_rows(const SoftmaxGradRows& rows) {
  with_compute(rows.lane, [&](auto tag) { softmax_grad_as<typename decltype(tag)::Type>(rows); });
}

void log_softmax_grad_rows(const SoftmaxGradRows& rows) {
  with_compute(rows.lane,
               [&](auto tag) { log_softmax_grad_as<typename decltype(tag)::Type>(rows); });
}

void cross_entropy_rows(const CrossEntropyRows& rows) {
  with_compute(rows.lane, [&](auto tag) { cross_entropy_as<typename decltype(tag)::Type>(rows); });
}

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
