#include "emulator/measure/rivals.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "emulator/measure/philox.h"

namespace trek::measure {

using driver::DeviceBuffer;
using driver::GemmShape;
using driver::GemmType;

Result<GridBarriers> GridBarriers::create(const CeilingBench& bench, unsigned count) {
  Result<driver::Kernel> kernel = bench.kernel("barriers");
  if (!kernel) return kernel.error();
  Result<DeviceBuffer> counter = DeviceBuffer::allocate(bench.context(), 256);
  if (!counter) return counter.error();
  if (Status zeroed = counter->fill(bench.stream(), std::byte{0}); !zeroed) return zeroed.error();
  return GridBarriers(bench, kernel.take(), counter.take(), count);
}

Contender GridBarriers::contender(std::string name, unsigned threads) {
  return {std::move(name), [this, threads]() -> Result<double> {
            driver::LaunchShape shape;
            shape.grid = {static_cast<unsigned>(bench_->multiprocessors()), 1, 1};
            shape.block = {threads, 1, 1};
            shape.cooperative = true;
            const unsigned from = base_;
            base_ += count_ * shape.grid[0];
            const Result<double> seconds = bench_->seconds([&] {
              return kernel_.launch(bench_->stream(), shape, counter_.address(), from, count_);
            });
            if (!seconds) return seconds.error();
            return *seconds / count_;
          }};
}

Status GridBarriers::check() const {
  const Result<std::vector<unsigned>> seen = bench_->download<unsigned>(counter_, 0, 1);
  if (!seen) return seen.error();
  if (seen->front() != base_) return wrong("grid barrier", "arrivals were lost");
  return Done{};
}

std::vector<uint64_t> windows(uint64_t elements) {
  return {0, elements / 2 / kWindow * kWindow, elements - kWindow};
}

Result<Additions> Additions::create(const CeilingBench& bench, uint64_t elements) {
  Result<driver::Kernel> kernel = bench.kernel("add");
  if (!kernel) return kernel.error();
  const int sets = sets_past_cache(3 * sizeof(float) * elements, bench.context().device().l2_bytes);
  Result<std::vector<DeviceBuffer>> buffers =
      bench.random_buffers(GemmType::f32, elements, 3 * sets);
  if (!buffers) return buffers.error();
  return Additions(bench, kernel.take(), elements, sets, buffers.take());
}

Status Additions::enqueue(int repeats) {
  Status status = Done{};
  for (int i = 0; i < repeats && status; ++i) {
    const DeviceBuffer* set = &buffers_[3 * turn_.next()];
    status = kernel_.launch(bench_->stream(), bench_->filling_shape(), set[0].address(),
                            set[1].address(), set[2].address(), elements_ / 4);
  }
  return status;
}

Contender Additions::contender(std::string name, int repeats) {
  return {std::move(name), [this, repeats]() -> Result<double> {
            const Result<double> seconds = bench_->seconds([&] { return enqueue(repeats); });
            if (!seconds) return seconds.error();
            return *seconds / repeats;
          }};
}

Status Additions::check() const {
  for (const uint64_t first : windows(elements_)) {
    const Result<std::vector<float>> sum = bench_->download<float>(buffers_[0], first, kWindow);
    if (!sum) return sum.error();
    for (uint64_t i = 0; i < kWindow; ++i) {
      // The operands are random_buffers' second and third.
      if ((*sum)[i] != random_element(1001, first + i) + random_element(1002, first + i))
        return wrong("add", fmt::format("element {}", first + i));
    }
  }
  return Done{};
}

Result<CublasProducts> CublasProducts::create(const CeilingBench& bench,
                                              const driver::Cublas& cublas, GemmType type, int size,
                                              bool b_transposed) {
  const uint64_t elements = static_cast<uint64_t>(size) * static_cast<uint64_t>(size);
  const uint64_t bytes = 3 * elements * driver::element_bytes(type);
  const int sets = sets_past_cache(bytes, bench.context().device().l2_bytes);
  Result<std::vector<DeviceBuffer>> buffers = bench.random_buffers(type, elements, 3 * sets);
  if (!buffers) return buffers.error();
  return CublasProducts(bench, cublas, type, {size, size, size, b_transposed}, sets,
                        buffers.take());
}

Status CublasProducts::enqueue(int repeats) {
  Status status = Done{};
  for (int i = 0; i < repeats && status; ++i) {
    const DeviceBuffer* set = &buffers_[3 * turn_.next()];
    status = cublas_->gemm(type_, shape_, set[0].address(), set[1].address(), set[2].address());
  }
  return status;
}

Contender CublasProducts::contender(std::string name, int repeats) {
  return {std::move(name), [this, repeats]() -> Result<double> {
            const Result<double> seconds = bench_->seconds([&] { return enqueue(repeats); });
            if (!seconds) return seconds.error();
            return *seconds / repeats;
          }};
}

Status CublasProducts::check() const {
  const auto elements = static_cast<uint64_t>(shape_.m) * static_cast<uint64_t>(shape_.n);
  const uint64_t bytes = elements * driver::element_bytes(type_);
  std::vector<std::byte> matrices[3];
  for (size_t i = 0; i < 3; ++i) {
    Result<std::vector<std::byte>> matrix = bench_->download<std::byte>(buffers_[i], 0, bytes);
    if (!matrix) return matrix.error();
    matrices[i] = matrix.take();
  }
  return check_product(type_, shape_, matrices[0], matrices[1], matrices[2]);
}

namespace {

// |error| / (|exact| + sqrt(k)), for operands of unit variance.
double tolerance(GemmType type) {
  switch (type) {
    case GemmType::f32:
      return 1e-5;
    case GemmType::bf16:
      return 1e-2;
    case GemmType::tf32:
    case GemmType::f16:
      break;
  }
  return 2e-3;
}

// Element `index` of a matrix as a number.
double number(GemmType type, std::span<const std::byte> matrix, uint64_t index) {
  const std::byte* bytes = matrix.data() + index * driver::element_bytes(type);
  if (driver::element_bytes(type) == 4) {
    float value = 0;
    std::memcpy(&value, bytes, 4);
    return static_cast<double>(value);
  }
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, 2);
  if (type == GemmType::bf16) {
    const uint32_t wide = uint32_t{bits} << 16;
    float value = 0;
    std::memcpy(&value, &wide, 4);
    return static_cast<double>(value);
  }
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

}  // namespace

Status check_product(GemmType type, const GemmShape& shape, std::span<const std::byte> a,
                     std::span<const std::byte> b, std::span<const std::byte> c) {
  const auto rows = static_cast<uint64_t>(shape.m);
  const auto columns = static_cast<uint64_t>(shape.n);
  const auto depth = static_cast<uint64_t>(shape.k);
  for (uint64_t sample = 0; sample < 64; ++sample) {
    const uint64_t m = (sample * 2654435761u + 17) % rows;
    const uint64_t n = (sample * 40503u + 5) % columns;
    double sum = 0;
    for (uint64_t k = 0; k < depth; ++k) {
      const uint64_t of_b = shape.b_transposed ? n * depth + k : k * columns + n;
      sum += number(type, a, m * depth + k) * number(type, b, of_b);
    }
    const double found = number(type, c, m * columns + n);
    const double error =
        std::abs(found - sum) / (std::abs(sum) + std::sqrt(static_cast<double>(depth)));
    if (!(error <= tolerance(type))) {
      return wrong(fmt::format("matmul {}", name(type)),
                   fmt::format("[{},{}] is {}, and {} in f64", m, n, found, sum));
    }
  }
  return Done{};
}

}  // namespace trek::measure
