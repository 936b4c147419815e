// The row of a GEMV (gemv.h): asked for, taken through its norm or softmax, and left in shared memory, of 16 bits, as tensor
// cores read it. Hopper's level only, where a kernel interprets.
#pragma once

#include "emulator/device/gemv.h"
#include "emulator/device/matrix_spot.h"
#include "emulator/device/matrix_thin_tags.h"
#include "isa/semantics/moderate.h"

namespace trek::device::gemv {

#ifdef TREK_FOR_CHAINS

// A thread's part of the row: two words, or eight bytes, each.
class Items {
 public:
  TREK_TILE_MEMBER Items(const Task& task, const Gemv& of, const std::byte* from)
      : thread_(task.thread()), items_(of.items), from_(from) {}
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
  // Asks until all are of a trip; where the block must leave, they may be anything.
  TREK_TILE_MEMBER void await(uint32_t tag) {
    TREK_ROLLED
    for (uint32_t spins = 1;; ++spins) {
      bool all = true;
      TREK_UNROLLED
      for (uint32_t i = 0; i < kMostItems; ++i)
        if (has(i) && !two_[i].is_of(tag)) {
          two_[i] = thin::ask_twice(words(i));
          all = false;
        }
      if (all || (spins % kPatience == 0 && trek_leaves())) break;
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

// A row's norm. Scale and shift of a thread's elements are asked for before the row is there. The
// row is no more than a tile of the reduction order, so every warp adds all of it, each lane a partial.
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
    // The mean, and then that of squares, by one piece of code.
    float mean = 0;
    float spread = 0;
    TREK_ROLLED
    for (bool of_squares = false;; of_squares = true) {
      const float sum = sum_of_warp(added(task, mean, of_squares));
      spread = divided(sum, static_cast<float>(k_));
      if (of_squares) break;
      mean = spread;
    }
    const float safe = semantics::add(spread, safe_);
    const float factor = safe >= 0x1p-80f && safe <= 0x1p80f
                             ? semantics::inverse(semantics::root(safe))
                             : inverse_root_rarely(safe);
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
  static constexpr uint32_t kAtOnce = 8;  // of a lane's elements
  // A lane's elements less `mean`, or the squares of that, added in ascending order, to what changes nothing.
  TREK_TILE_MEMBER float added(const Task& task, float mean, bool squares) const {
    const float* row = task.shared<float>(kWide) + task.thread() % 32;
    const auto term = [&](float x) TREK_TILE_LAMBDA {
      const float centred = semantics::sub(x, mean);
      return squares ? semantics::mul(centred, centred) : centred;
    };
    float sum = -0.0f;
    uint32_t left = k_ / 32;
    TREK_ROLLED
    for (; left >= kAtOnce; left -= kAtOnce, row += 32 * kAtOnce) {
      float x[kAtOnce];
      TREK_UNROLLED
      for (uint32_t i = 0; i < kAtOnce; ++i) x[i] = term(row[32 * i]);
      TREK_UNROLLED
      for (const float each : x) sum = semantics::add(sum, each);
    }
    TREK_ROLLED
    for (; left != 0; --left, row += 32) sum = semantics::add(sum, term(*row));
    return sum;
  }

  uint64_t scale_[kOwn] = {};
  uint64_t shift_[kOwn] = {};
  float safe_ = 0;
  uint32_t k_ = 0;
};

// The softmax of a row, by one warp, in place: in shared memory, where the task before has left it, or where it is brought.
template <bool kBf16>
TREK_TILE void make_softmax(const Task& task, const Gemv& of, const std::byte* from) {
  const uint32_t lane = task.thread();
  if (lane >= 32) return;
  const bool is_here = of.row == Gemv::here;
  float* row = task.shared<float>(is_here ? kHere : kWide);
  const uint32_t k = of.k;
  float most = -__builtin_huge_valf();
  TREK_ROLLED
  for (uint32_t i = lane; i < k; i += 32) {
    if (!is_here) row[i] = as_float(read<uint32_t>(from, i));
    most = semantics::max(most, row[i]);
  }
  most = joined(most, [](float a, float b) TREK_TILE_LAMBDA { return semantics::max(a, b); });
  float sum = -0.0f;
  TREK_ROLLED
  for (uint32_t i = lane; i < k; i += 32) {
    row[i] = semantics::exp_negative(row[i] - most);
    sum = semantics::add(sum, row[i]);
  }
  sum = sum_of_warp(sum);
  TREK_ROLLED
  for (uint32_t i = lane; i < k; i += 32)
    *task.shared<Aliased<uint16_t>>(kRow + place_in_row(i)) =
        static_cast<uint16_t>(tensor::packed(kBf16, divided(row[i], sum), 0));
}

#endif

}  // namespace trek::device::gemv
