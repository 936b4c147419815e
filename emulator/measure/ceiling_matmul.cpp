// Arithmetic: matrix products of each type by cuBLAS, on random data, side by side.
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "emulator/measure/ceiling_bench.h"

namespace trek::measure {

using driver::Cublas;
using driver::DeviceBuffer;
using driver::GemmShape;
using driver::GemmType;

namespace {

struct MatmulCase {
  GemmType type;
  double tolerance;  // |error| / (|exact| + sqrt(k)), for operands of unit variance
};
constexpr MatmulCase kMatmulCases[] = {
    {GemmType::f32, 1e-5}, {GemmType::tf32, 2e-3}, {GemmType::bf16, 1e-2}, {GemmType::f16, 2e-3}};

// An element as a number, from its bytes.
double number(GemmType type, const std::byte* bytes) {
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

// Rows of a matrix of `columns`, as numbers.
Result<std::vector<double>> row(const CeilingBench& bench, GemmType type,
                                const DeviceBuffer& matrix, uint64_t columns, uint64_t index) {
  const uint64_t bytes = driver::element_bytes(type);
  const Result<std::vector<std::byte>> raw =
      bench.download<std::byte>(matrix, index * columns * bytes, columns * bytes);
  if (!raw) return raw.error();
  std::vector<double> values;
  values.reserve(columns);
  for (uint64_t i = 0; i < columns; ++i) values.push_back(number(type, raw->data() + i * bytes));
  return values;
}

// A few elements of C = A B^T against sums in f64.
Status check_matmul(const CeilingBench& bench, const MatmulCase& one, uint64_t size,
                    const DeviceBuffer* set) {
  for (uint64_t sample = 0; sample < 4; ++sample) {
    const uint64_t m = (sample * 2654435761u + 17) % size;
    const uint64_t n = (sample * 40503u + 5) % size;
    const Result<std::vector<double>> a = row(bench, one.type, set[0], size, m);
    const Result<std::vector<double>> b = row(bench, one.type, set[1], size, n);
    const Result<std::vector<double>> c = row(bench, one.type, set[2], size, m);
    if (!a) return a.error();
    if (!b) return b.error();
    if (!c) return c.error();
    double sum = 0;
    for (uint64_t k = 0; k < size; ++k) sum += (*a)[k] * (*b)[k];
    const double error = std::abs((*c)[n] - sum) / (std::abs(sum) + std::sqrt(double(size)));
    if (!(error <= one.tolerance)) {
      return wrong(fmt::format("matmul {}", name(one.type)),
                   fmt::format("[{},{}] is {}, and {} in f64", m, n, (*c)[n], sum));
    }
  }
  return Done{};
}

}  // namespace

Status measure_matmul(CeilingBench& bench) {
  Result<Cublas> cublas = Cublas::create(bench.context(), bench.stream());
  if (!cublas) {
    bench.results().notes.push_back("matmul: " + cublas.error().text());
    return Done{};
  }
  bench.results().versions.emplace_back("cublas", cublas->version());
  const std::vector<int> sizes = bench.options().quick ? std::vector{512} : std::vector{8192, 4096};
  for (const int size : sizes) {
    const GemmShape shape = {size, size, size, true};
    const uint64_t elements = static_cast<uint64_t>(size) * static_cast<uint64_t>(size);
    std::vector<std::vector<DeviceBuffer>> operands;  // per type: sets of A, B, C
    std::vector<Contender> contenders;
    std::vector<Turn> turns;
    for (const MatmulCase& one : kMatmulCases) {
      const uint64_t bytes = 3 * elements * driver::element_bytes(one.type);
      const int sets = sets_past_cache(bytes, bench.context().device().l2_bytes);
      Result<std::vector<DeviceBuffer>> buffers =
          bench.random_buffers(one.type, elements, 3 * sets);
      if (!buffers) return buffers.error();
      operands.push_back(buffers.take());
      turns.emplace_back(sets);
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      const GemmType type = kMatmulCases[i].type;
      contenders.push_back({std::string(name(type)), [&, i, type] {
                              const DeviceBuffer* set = &operands[i][3 * turns[i].next()];
                              return bench.seconds([&] {
                                return cublas->gemm(type, shape, set[0].address(), set[1].address(),
                                                    set[2].address());
                              });
                            }});
    }
    const Result<std::vector<Series>> series =
        measure_interleaved(contenders, bench.options().rounds);
    if (!series) return series.error();
    for (size_t i = 0; i < operands.size(); ++i) {
      if (Status ok =
              check_matmul(bench, kMatmulCases[i], static_cast<uint64_t>(size), operands[i].data());
          !ok) {
        return ok;
      }
      const double flops = 2.0 * size * size * size;
      bench.add({fmt::format("matmul {}, cuBLAS, {}^3", (*series)[i].name, size), "TFLOP/s",
                 estimate((*series)[i].seconds).as_rate(flops * 1e-12)});
    }
  }
  return Done{};
}

}  // namespace trek::measure
