// The row of a GEMV (gemv.h): asked for, taken through its norm or softmax, and left in shared memory, of 16 bits, as tensor
// cores read it. Hopper's level only, where a kernel interprets.
#pragma once

#include "emulator/device/gemv.h"
#include "emulator/device/matrix_spot.h"
#include "emulator/device/matrix_thin_tags.h"
#include "isa/semantics/moderate.h"

namespace trek::device::gemv {

#ifdef TREK_FOR_CHAINS

// A thread's part of the row, two words, or eight bytes, each; or of the line of the columns that comes in words, one.
class Items {
 public:
  TREK_TILE_MEMBER Items(const Task& task, const Gemv& of, const Tile& tile, const std::byte* arena)
      : thread_(task.thread()),
        items_(of.items),
        from_(arena + of.left + uint64_t{tile.matrix} * of.left_matrix) {
    is_of_line_ =
        thread_ - kLineThreads < of.line_items && written_line_of(of, tile) < tile.lines(of);
    if (!is_of_line_) [[likely]]
      return;
    thread_ -= kLineThreads;
    items_ = of.line_items;
    from_ = arena + line_words_of(of, tile);
  }
  TREK_TILE_MEMBER bool is_of_line() const { return is_of_line_; }
  TREK_TILE_MEMBER const std::byte* from() const { return from_; }
  TREK_TILE_MEMBER uint32_t number(uint32_t i) const { return thread_ + i * kBlockThreads; }
  TREK_TILE_MEMBER bool has(uint32_t i) const { return number(i) < items_; }
  TREK_TILE_MEMBER uint32_t low(uint32_t i) const { return static_cast<uint32_t>(two_[i].word[0]); }
  TREK_TILE_MEMBER uint32_t high(uint32_t i) const {
    return static_cast<uint32_t>(two_[i].word[1]);
  }

  TREK_TILE_MEMBER void ask() {
    TREK_UNROLLED
    for (uint32_t i = 0; i < kMostItems; ++i)
      if (has(i)) two_[i] = thin::ask_twice(words(i));
  }
  // Asks until all are of a trip; where the block must leave, they may be anything. The lanes of a warp leave together, and
  // are together behind it.
  TREK_TILE_MEMBER void await(uint32_t tag) {
    TREK_ROLLED
    for (uint32_t spins = 1;; ++spins) {
      bool waits = false;
      TREK_UNROLLED
      for (uint32_t i = 0; i < kMostItems; ++i)
        if (has(i) && !two_[i].is_of(tag)) {
          two_[i] = thin::ask_twice(words(i));
          waits = true;
        }
      if (!__nvvm_vote_any_sync(0xFFFFFFFF, waits)) break;
      if (spins % kPatience != 0) [[likely]]
        continue;
      if (__nvvm_vote_any_sync(0xFFFFFFFF, trek_leaves())) break;
    }
  }
  TREK_TILE_MEMBER void load() {
    TREK_UNROLLED
    for (uint32_t i = 0; i < kMostItems; ++i)
      if (has(i)) {
        const auto both = read<uint64_t>(from_, number(i));
        two_[i] = {{both, both >> 32}};
      }
  }

 private:
  TREK_TILE_MEMBER const std::byte* words(uint32_t i) const {
    return from_ + uint64_t{2 * kWord} * number(i);
  }

  uint32_t thread_;
  uint32_t items_;
  const std::byte* from_;
  bool is_of_line_;
  thin::Twice two_[kMostItems] = {};
};

TREK_TILE void put_in_row(const Task& task, uint32_t k, uint32_t two) {
  *task.shared<Aliased<uint32_t>>(kRow + place_in_row(k)) = two;
}
TREK_TILE void put_items(const Task& task, const Items& items) {
  TREK_UNROLLED
  for (uint32_t i = 0; i < kMostItems; ++i)
    if (items.has(i)) {
      put_in_row(task, 4 * items.number(i), items.low(i));
      put_in_row(task, 4 * items.number(i) + 2, items.high(i));
    }
}

// What all lanes have, joined as partials fold: so in the reduction order.
template <class Join>
TREK_TILE float joined(float x, Join by) {
  x = by(x, as_float(tensor::shuffled<16>(bits_of(x))));
  x = by(x, as_float(tensor::shuffled<8>(bits_of(x))));
  x = by(x, as_float(tensor::shuffled<4>(bits_of(x))));
  x = by(x, as_float(tensor::shuffled<2>(bits_of(x))));
  return by(x, as_float(tensor::shuffled<1>(bits_of(x))));
}
TREK_TILE float sum_of_warp(float x) {
  return joined(x, [](float a, float b) TREK_TILE_LAMBDA { return semantics::add(a, b); });
}

// x / z, z of moderate size: without the branch for other numbers where x is, too; else called.
TREK_UNIT_CALL float divided_rarely(float x, float z) { return x / z; }
TREK_TILE float divided(float x, float z) {
  const float size = semantics::abs(x);
  return size >= 0x1p-80f && size <= 0x1p80f ? semantics::quotient(x, z) : divided_rarely(x, z);
}
TREK_UNIT_CALL float inverse_root_rarely(float x) { return semantics::rsqrt(x); }

TREK_TILE float inverse_root(float x) {
  return x >= 0x1p-80f && x <= 0x1p80f ? semantics::inverse(semantics::root(x))
                                       : inverse_root_rarely(x);
}

// A row's mean, and 1 / sqrt(mean of squares around it + what is safe).
struct Moments {
  float mean;
  float factor;
};
// Of a row of k elements, from this lane's first on. Called: most sizes are those of moments_of().
TREK_UNIT_CALL Moments moments_rarely(const float* row, uint32_t k, float safe) {
  const auto size = static_cast<float>(k);
  float sum = -0.0f;
  TREK_ROLLED
  for (uint32_t i = 0; i < k; i += 32) sum = semantics::add(sum, row[i]);
  const float mean = divided(sum_of_warp(sum), size);
  sum = -0.0f;
  TREK_ROLLED
  for (uint32_t i = 0; i < k; i += 32) {
    const float centred = semantics::sub(row[i], mean);
    sum = semantics::add(sum, semantics::mul(centred, centred));
  }
  return {mean, inverse_root(semantics::add(divided(sum_of_warp(sum), size), safe))};
}
// The same of a row of some times kSizes elements. Without a branch: one takes as long as it is to add three numbers.
inline constexpr uint32_t kSizes = 256;
TREK_TILE Moments moments_of(const float* row, uint32_t k, float safe) {
  constexpr uint32_t kParts = kMostNorm / kSizes;
  constexpr uint32_t kOfLane = kSizes / 32;  // of a part
  // All that there could be: what is not loaded on one path would be kept on all.
  float x[kParts][kOfLane];
  uint32_t has[kParts];
  TREK_UNROLLED
  for (uint32_t p = 0; p < kParts; ++p) {
    has[p] = p * kSizes < k ? 1 : 0;
    TREK_UNROLLED
    for (uint32_t i = 0; i < kOfLane; ++i) x[p][i] = row[32 * (p * kOfLane + i)];
  }
  const auto size = static_cast<float>(k);
  // In ascending order, to what changes nothing; then of all lanes.
  const auto mean_of_all = [&] TREK_TILE_LAMBDA {
    float sum = -0.0f;
    TREK_UNROLLED
    for (uint32_t p = 0; p < kParts; ++p) TREK_UNROLLED
    for (const float each : x[p])
      asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p add.rn.f32 %0, %0, %1; }"
          : "+f"(sum)
          : "f"(each), "r"(has[p]));
    return divided(sum_of_warp(sum), size);
  };
  const float mean = mean_of_all();
  TREK_UNROLLED
  for (auto& part : x) TREK_UNROLLED
  for (float& each : part) {
    each = semantics::sub(each, mean);
    each = semantics::mul(each, each);
  }
  return {mean, inverse_root(semantics::add(mean_of_all(), safe))};
}

// A row's norm. Scale and shift of a thread's elements are asked for before the row is there. Its moments are one warp's: the
// row is no more than a tile of the reduction order, so that each lane has a partial.
template <bool kBf16>
class Norm {
 public:
  TREK_TILE_MEMBER void ask(const Gemv& of, const Items& items, const std::byte* arena) {
    TREK_UNROLLED
    for (uint32_t i = 0; i < kOwn; ++i)
      if (items.has(i)) {
        scale_[i] = read<uint64_t>(arena + of.scale, items.number(i));
        shift_[i] = read<uint64_t>(arena + of.shift, items.number(i));
      }
    safe_ = of.safe;
    k_ = of.k;
  }
  TREK_TILE_MEMBER void make(const Task& task, const Items& items) const {
    TREK_UNROLLED
    for (uint32_t i = 0; i < kOwn; ++i)
      if (items.has(i))
        *task.shared<Aliased<uint64_t>>(kWide + 8 * items.number(i)) =
            uint64_t{items.high(i)} << 32 | items.low(i);
    task.sync();
    if (task.thread() / 32 == kWarps - 1) find_moments(task);
    task.sync();
    const auto moments = *task.shared<Aliased<uint64_t>>(kMoments);
    const float mean = as_float(moments);
    const float factor = as_float(moments >> 32);
    TREK_UNROLLED
    for (uint32_t i = 0; i < kOwn; ++i) {
      if (!items.has(i)) continue;
      const auto made = [&](uint32_t from, uint64_t scale, uint64_t shift) TREK_TILE_LAMBDA {
        const float unit = semantics::mul(semantics::sub(as_float(from), mean), factor);
        return semantics::fma(unit, as_float(scale), as_float(shift));
      };
      put_in_row(task, 2 * items.number(i),
                 tensor::packed(kBf16, made(items.low(i), scale_[i], shift_[i]),
                                made(items.high(i), scale_[i] >> 32, shift_[i] >> 32)));
    }
  }

 private:
  static constexpr uint32_t kOwn = kMostNorm / 2 / kBlockThreads;

  // The row's moments, to shared memory; by one warp.
  TREK_TILE_MEMBER void find_moments(const Task& task) const {
    const uint32_t lane = task.thread() % 32;
    const float* row = task.shared<float>(kWide) + lane;
    Moments moments;
    if (k_ % kSizes == 0)
      moments = moments_of(row, k_, safe_);
    else
      moments = moments_rarely(row, k_, safe_);
    if (lane == 0)
      *task.shared<Aliased<uint64_t>>(kMoments) =
          uint64_t{bits_of(moments.factor)} << 32 | bits_of(moments.mean);
  }

  uint64_t scale_[kOwn] = {};
  uint64_t shift_[kOwn] = {};
  float safe_ = 0;
  uint32_t k_ = 0;
};

// The softmax of a row, by one warp: of what lies in shared memory, where the task before has left it, or in memory.
template <bool kBf16>
TREK_TILE void make_softmax(const Task& task, const Gemv& of, const std::byte* from) {
  constexpr uint32_t kOfLane = kMostSoftmax / 32;
  const uint32_t lane = task.thread();
  if (lane >= 32) return;
  const bool is_here = of.row == Gemv::here;
  const uint32_t k = of.k;
  float x[kOfLane];
  float most = -__builtin_huge_valf();
  TREK_UNROLLED
  for (uint32_t i = 0; i < kOfLane; ++i) {
    const uint32_t at = lane + 32 * i;
    x[i] = -__builtin_huge_valf();  // which changes nothing
    if (at < k) x[i] = is_here ? task.shared<float>(kHere)[at] : as_float(read<uint32_t>(from, at));
    most = semantics::max(most, x[i]);
  }
  most = joined(most, [](float a, float b) TREK_TILE_LAMBDA { return semantics::max(a, b); });
  float sum = -0.0f;
  TREK_UNROLLED
  for (uint32_t i = 0; i < kOfLane; ++i)
    if (32 * i < k) {
      x[i] = semantics::exp_negative(x[i] - most);
      if (lane + 32 * i < k) sum = semantics::add(sum, x[i]);
    }
  sum = sum_of_warp(sum);
  TREK_UNROLLED
  for (uint32_t i = 0; i < kOfLane; ++i)
    if (lane + 32 * i < k)
      *task.shared<Aliased<uint16_t>>(kRow + place_in_row(lane + 32 * i)) =
          static_cast<uint16_t>(tensor::packed(kBf16, divided(x[i], sum), 0));
}

#endif

}  // namespace trek::device::gemv
