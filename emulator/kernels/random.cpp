// Random numbers for a range of elements: the words of its counters, then what is made of them.
#include "isa/semantics/random.h"

#include "emulator/kernels/loops.h"

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {

// The words of elements [begin, begin + n), n <= kTile; begin is a multiple of 4.
void make_words(uint64_t key, uint64_t offset, int64_t begin, int64_t n, uint32_t* words) {
  const auto first = static_cast<uint64_t>(begin / 4);
  const int64_t counters = n / 4;
  TREK_VECTORISE
  for (int64_t i = 0; i < counters; ++i) {
    const semantics::RandomWords four =
        semantics::philox(key, offset + first + static_cast<uint64_t>(i));
    for (int lane = 0; lane < 4; ++lane) words[4 * i + lane] = four.lane[lane];
  }
  const semantics::RandomWords rest =
      semantics::philox(key, offset + first + static_cast<uint64_t>(counters));
  for (int64_t i = 4 * counters; i < n; ++i) words[i] = rest.lane[i % 4];
}

// Calls f(words, at, n) for tiles of [begin, end). Ranges begin at multiples of 4 (a counter).
template <class F>
void each_tile(uint64_t key, uint64_t offset, int64_t begin, int64_t end, F&& f) {
  alignas(64) uint32_t words[kTile] = {};
  for (int64_t at = begin; at < end; at += kTile) {
    const int64_t n = least(kTile, end - at);
    make_words(key, offset, at, n, words);
    f(static_cast<const uint32_t*>(words), at, n);
  }
}

}  // namespace

void fill_words(const RandomTask& task, int64_t begin, int64_t end) {
  auto* r = reinterpret_cast<uint32_t*>(task.r);
  each_tile(task.key, task.offset, begin, end, [&](const uint32_t* words, int64_t at, int64_t n) {
    __builtin_memcpy(r + at, words, static_cast<size_t>(n) * sizeof(uint32_t));
  });
}

void fill_uniform(const RandomTask& task, int64_t begin, int64_t end) {
  with_real(task.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = Compute<T>;
    const C low = static_cast<C>(task.a);
    const C high = static_cast<C>(task.b);
    auto* r = reinterpret_cast<T*>(task.r);
    each_tile(task.key, task.offset, begin, end, [&](const uint32_t* words, int64_t at, int64_t n) {
      TREK_VECTORISE
      for (int64_t i = 0; i < n; ++i)
        r[at + i] = semantics::convert<T>(semantics::uniform(words[i], low, high));
    });
  });
}

void fill_normal(const RandomTask& task, int64_t begin, int64_t end) {
  with_real(task.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = Compute<T>;
    const C mean = static_cast<C>(task.a);
    const C deviation = static_cast<C>(task.b);
    auto* r = reinterpret_cast<T*>(task.r);
    each_tile(task.key, task.offset, begin, end, [&](const uint32_t* words, int64_t at, int64_t n) {
      for (int64_t i = 0; i < n; i += 2) {
        // The partner of a last element is made all the same: it is in the same counter.
        const uint32_t partner =
            i + 1 < n
                ? words[i + 1]
                : semantics::random_word(task.key, task.offset, static_cast<uint64_t>(at + i + 1));
        const auto pair = semantics::normal(words[i], partner, mean, deviation);
        r[at + i] = semantics::convert<T>(pair.even);
        if (i + 1 < n) r[at + i + 1] = semantics::convert<T>(pair.odd);
      }
    });
  });
}

void fill_bernoulli(const RandomTask& task, int64_t begin, int64_t end) {
  const auto p = static_cast<float>(task.a);
  auto* r = reinterpret_cast<uint8_t*>(task.r);
  each_tile(task.key, task.offset, begin, end, [&](const uint32_t* words, int64_t at, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      r[at + i] = static_cast<uint8_t>(semantics::bernoulli(words[i], p) ? 1 : 0);
  });
}

void drop_out(const DropoutTask& task, int64_t begin, int64_t end) {
  with_real(task.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = Compute<T>;
    const auto p = static_cast<float>(task.p);
    const C scale = semantics::dropout_scale(static_cast<C>(task.p));
    const auto* x = reinterpret_cast<const T*>(task.x);
    auto* y = reinterpret_cast<T*>(task.y);
    auto* kept = reinterpret_cast<uint8_t*>(task.kept);
    each_tile(task.key, task.offset, begin, end, [&](const uint32_t* words, int64_t at, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const bool keep = !semantics::bernoulli(words[i], p);
        const C scaled = semantics::convert<C>(x[at + i]) * scale;
        kept[at + i] = static_cast<uint8_t>(keep ? 1 : 0);
        y[at + i] = semantics::convert<T>(keep ? scaled : C(0));
      }
    });
  });
}

void drop_out_grad(const DropoutTask& task, int64_t begin, int64_t end) {
  with_real(task.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = Compute<T>;
    const C scale = semantics::dropout_scale(static_cast<C>(task.p));
    const auto* dy = reinterpret_cast<const T*>(task.x);
    const auto* kept = reinterpret_cast<const uint8_t*>(task.kept);
    auto* dx = reinterpret_cast<T*>(task.y);
    TREK_VECTORISE
    for (int64_t i = begin; i < end; ++i) {
      const C scaled = semantics::convert<C>(dy[i]) * scale;
      dx[i] = semantics::convert<T>(kept[i] != 0 ? scaled : C(0));
    }
  });
}

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
