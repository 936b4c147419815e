// Rows of the forms that networks write, a layer norm or a softmax of a few elements, where nothing is made for one node:
// every warp has the whole row in registers and takes it through its phases without looking up a step and without a
// barrier, since a row is at most a tile of the reduction order; the elements at the end are shared out. Device only:
// a host interprets such rows like all others (row_phases.h).
#pragma once

#if defined(__CUDA__) && !defined(TREK_SPECIALISED)

#include "emulator/device/rows.h"

namespace trek::device::row_form {

inline constexpr uint32_t kOfTile = rows::kTile / 32;          // elements of a lane, at most
inline constexpr uint32_t kOfSoftmax = kShortRow / 32;         // the same of a softmax
inline constexpr uint32_t kOwn = rows::kTile / kBlockThreads;  // that a thread gives

TREK_TILE float element(const std::byte* from, int64_t i) {
  return as_float(load32(from, DType::f32, i));
}
// Calls act(i, k) for this thread's elements of a row.
template <class Act>
TREK_TILE void each_own(const Task& task, uint32_t n, Act act) {
  TREK_UNROLLED
  for (uint32_t i = 0; i < kOwn; ++i)
    if (const uint32_t k = task.thread() + i * task.threads(); k < n) act(i, k);
}

// What a norm reads beside a row, for this thread's elements.
struct Scales {
  float scale[kOwn];
  float shift[kOwn];
};
TREK_TILE void load_scales(const Task& task, const Node& node, const std::byte* arena, Scales& to) {
  const Phases& of = node.phases();
  if (static_cast<RowForm>(of.form) != RowForm::norm) return;
  each_own(task, of.n, [&](uint32_t i, uint32_t k) TREK_TILE_LAMBDA {
    to.scale[i] = element(arena + node.operand(of.scale).offset, k);
    to.shift[i] = element(arena + node.operand(of.shift).offset, k);
  });
}

// The first elements of lanes joined, for all lanes.
template <uint32_t kCount, class Join>
TREK_TILE float join(const float (&x)[kOfTile], uint32_t lane, uint32_t n, Join by) {
  float value = x[0];
  TREK_UNROLLED
  for (uint32_t i = 1; i < kCount; ++i)
    if (lane + 32 * i < n) value = by(value, x[i]);
  return rows::from_lane(rows::fold(value, lane, n, by), 0);
}
template <uint32_t kCount>
TREK_TILE float sum(const float (&x)[kOfTile], uint32_t lane, uint32_t n) {
  return join<kCount>(x, lane, n,
                      [](float a, float b) TREK_TILE_LAMBDA { return semantics::add(a, b); });
}

// What the elements of a row are made with: its mean and the factor, or its maximum and the sum of exponentials.
struct Numbers {
  float first;
  float second;
};
TREK_TILE Numbers norm_of(float (&x)[kOfTile], uint32_t lane, uint32_t n, float safe) {
  const auto count = static_cast<float>(n);
  const float mean = sum<kOfTile>(x, lane, n) / count;
  TREK_UNROLLED
  for (float& of : x) {
    const float centred = semantics::sub(of, mean);
    of = semantics::mul(centred, centred);
  }
  const float spread = sum<kOfTile>(x, lane, n) / count;
  return {mean, semantics::rsqrt(semantics::add(spread, safe))};
}
TREK_TILE Numbers softmax_of(float (&x)[kOfTile], uint32_t lane, uint32_t n) {
  const float most = join<kOfSoftmax>(
      x, lane, n, [](float a, float b) TREK_TILE_LAMBDA { return semantics::max(a, b); });
  TREK_UNROLLED
  for (uint32_t i = 0; i < kOfSoftmax; ++i) x[i] = semantics::exp_negative(x[i] - most);
  return {most, sum<kOfSoftmax>(x, lane, n)};
}

// Calls give(r, k, value) for this thread's elements k of rows first + r. `asked()` is called once, behind the loads of
// the first row.
template <class Asked, class Give>
TREK_TILE void make_rows(const Task& task, const Node& node, const std::byte* arena, int64_t first,
                         uint32_t rows, const Scales& scales, Asked asked, Give give) {
  const Phases& of = node.phases();
  const uint32_t n = of.n;
  const uint32_t lane = task.thread() % 32;
  const auto type = static_cast<DType>(of.form_type);
  const bool is_norm = static_cast<RowForm>(of.form) == RowForm::norm;
  float safe = 0;
  if (is_norm) {
    const Step& adds = *node.step(of.phase[1].tail.first_step);
    safe = as_float(static_cast<uint64_t>(node.scalar(adds.inputs[1].index).value));
  }
  const std::byte* row = arena + node.operand(of.operand[0]).offset + first * n * 4;
  TREK_ROLLED
  for (uint32_t r = 0; r < rows; ++r, row += size_t{n} * 4) {
    float x[kOfTile];
    TREK_UNROLLED
    for (uint32_t i = 0; i < kOfTile; ++i)
      x[i] = lane + 32 * i < n ? element(row, lane + 32 * i) : 0.0f;
    float own[kOwn] = {};
    each_own(task, n, [&](uint32_t i, uint32_t k) TREK_TILE_LAMBDA { own[i] = element(row, k); });
    if (r == 0) asked();
    if (is_norm) {
      const Numbers by = norm_of(x, lane, n, safe);
      each_own(task, n, [&](uint32_t i, uint32_t k) TREK_TILE_LAMBDA {
        const float unit = semantics::mul(semantics::sub(own[i], by.first), by.second);
        give(r, k, rounded(type, semantics::fma(unit, scales.scale[i], scales.shift[i])));
      });
    } else {
      const Numbers by = softmax_of(x, lane, n);
      // A row has no more elements than a block threads.
      if (task.thread() < n)
        give(r, task.thread(),
             rounded(type, semantics::exp_negative(own[0] - by.first) / by.second));
    }
  }
}

// Rows [first, end) of a row node.
TREK_UNIT_CALL void run(Task task, int64_t first, int64_t end) {
  const Node& node = task.node();
  std::byte* arena = task.context().arena;
  Scales scales{};
  load_scales(task, node, arena, scales);
  std::byte* to = task.memory(node.result(0));
  const auto type = static_cast<DType>(node.result(0).dtype);
  const uint32_t n = node.phases().n;
  make_rows(
      task, node, arena, first, static_cast<uint32_t>(end - first), scales,
      []() TREK_TILE_LAMBDA {},
      [&](uint32_t r, uint32_t k, float value)
          TREK_TILE_LAMBDA { store32(to, type, (first + r) * n + k, bits_of(value)); });
}

}  // namespace trek::device::row_form

#endif
