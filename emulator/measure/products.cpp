#include "emulator/measure/products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ranges>
#include <thread>

#include <fmt/format.h>

namespace trek::measure {

using driver::DeviceBuffer;
using driver::GemmShape;
using driver::GemmType;

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

Result<CublasGraph> CublasGraph::create(const CeilingBench& bench, const driver::Cublas& cublas,
                                        GemmType type, const GemmShape& shape,
                                        std::span<const std::byte> a, std::span<const std::byte> b,
                                        double seconds) {
  const uint64_t results =
      static_cast<uint64_t>(shape.m) * static_cast<uint64_t>(shape.n) * driver::element_bytes(type);
  std::vector<DeviceBuffer> buffers;
  for (const uint64_t bytes : {uint64_t{a.size()}, uint64_t{b.size()}, results}) {
    Result<DeviceBuffer> buffer = DeviceBuffer::allocate(bench.context(), bytes);
    if (!buffer) return buffer.error();
    buffers.push_back(buffer.take());
  }
  Status status = buffers[0].upload(bench.stream(), a);
  if (status) status = buffers[1].upload(bench.stream(), b);
  if (!status) return status.error();
  const auto products = [&](int count) {
    Status enqueued = Done{};
    for (int i = 0; i < count && enqueued; ++i)
      enqueued = cublas.gemm(type, shape, buffers[0].address(), buffers[1].address(),
                             buffers[2].address());
    return enqueued;
  };
  constexpr int kTried = 3;
  Result<double> tried = bench.seconds([&] { return products(1); });  // cuBLAS loads its kernels
  if (tried) tried = bench.seconds([&] { return products(kTried); });
  if (!tried) return tried.error();
  const int count = std::clamp(static_cast<int>(seconds / (*tried / kTried)), 1, kMostNodes);
  Result<driver::Graph> graph =
      driver::Graph::capture(bench.context(), bench.stream(), [&] { return products(count); });
  if (!graph) return graph.error();
  return CublasGraph(bench, graph.take(), count, std::move(buffers));
}

Contender CublasGraph::contender(std::string name) {
  return {std::move(name), [this]() -> Result<double> {
            const Result<double> seconds =
                bench_->seconds([&] { return graph_.launch(bench_->stream()); });
            if (!seconds) return seconds.error();
            return *seconds / products_;
          }};
}

Result<std::vector<std::byte>> CublasGraph::result() const {
  return bench_->download<std::byte>(buffers_[2], 0, buffers_[2].bytes());
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
  // f32 with the exponent of f16 in its lowest five bits: smaller by 2^112, subnormals too.
  const uint32_t wide = (bits & 0x7fffu) << 13 | (bits & 0x8000u) << 16;
  float value = 0;
  std::memcpy(&value, &wide, 4);
  return static_cast<double>(value * 0x1p112f);
}

struct Operands {
  GemmType type;
  const GemmShape& shape;
  std::span<const std::byte> a;
  std::span<const std::byte> b;

  // Element [m,n] of their product in f64.
  double exact(uint64_t m, uint64_t n) const {
    const auto rows = static_cast<uint64_t>(shape.m);
    const auto columns = static_cast<uint64_t>(shape.n);
    const auto depth = static_cast<uint64_t>(shape.k);
    double sum = 0;
    for (uint64_t k = 0; k < depth; ++k) {
      const uint64_t of_a = shape.a_transposed ? k * rows + m : m * depth + k;
      const uint64_t of_b = shape.b_transposed ? n * depth + k : k * columns + n;
      sum += number(type, a, of_a) * number(type, b, of_b);
    }
    return sum;
  }
};

// Whether a result is as near to an exact one as `times` the type's bound; no NaN is.
bool is_near(GemmType type, const GemmShape& shape, double found, double exact, double times = 1) {
  const double scale = std::abs(exact) + std::sqrt(static_cast<double>(shape.k));
  return std::abs(found - exact) <= times * tolerance(type) * scale;
}

// What is not as the sum in f64 says.
driver::Error wrong_element(GemmType type, uint64_t m, uint64_t n, double found, double exact) {
  return wrong(fmt::format("matmul {}", name(type)),
               fmt::format("[{},{}] is {}, and {} in f64", m, n, found, exact));
}

// The elements of which two results disagree, ascending, and at least one more than `most` where there are so many.
std::vector<uint64_t> disagreeing(GemmType type, const GemmShape& shape,
                                  std::span<const std::byte> ours, std::span<const std::byte> rival,
                                  uint64_t most) {
  const uint64_t elements = ours.size() / driver::element_bytes(type);
  const uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::vector<uint64_t>> found(threads);
  std::vector<std::thread> all;
  for (uint64_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      const uint64_t end = elements * (t + 1) / threads;
      for (uint64_t i = elements * t / threads; i < end && found[t].size() <= most; ++i)
        if (!is_near(type, shape, number(type, ours, i), number(type, rival, i), 2))
          found[t].push_back(i);
    });
  for (std::thread& thread : all) thread.join();
  std::vector<uint64_t> together;
  for (const std::vector<uint64_t>& part : found)
    together.insert(together.end(), part.begin(), part.end());
  return together;
}

}  // namespace

Status check_product(GemmType type, const GemmShape& shape, std::span<const std::byte> a,
                     std::span<const std::byte> b, std::span<const std::byte> c) {
  const Operands operands{type, shape, a, b};
  const auto columns = static_cast<uint64_t>(shape.n);
  for (uint64_t sample = 0; sample < 64; ++sample) {
    const uint64_t m = (sample * 2654435761u + 17) % static_cast<uint64_t>(shape.m);
    const uint64_t n = (sample * 40503u + 5) % columns;
    const double exact = operands.exact(m, n);
    const double found = number(type, c, m * columns + n);
    if (!is_near(type, shape, found, exact)) return wrong_element(type, m, n, found, exact);
  }
  return Done{};
}

Result<Disagreement> compare_products(GemmType type, const GemmShape& shape,
                                      std::span<const std::byte> a, std::span<const std::byte> b,
                                      std::span<const std::byte> ours,
                                      std::span<const std::byte> rival) {
  constexpr uint64_t kMostDecided = 1000;
  const auto columns = static_cast<uint64_t>(shape.n);
  const uint64_t elements = static_cast<uint64_t>(shape.m) * columns;
  const std::string what = fmt::format("matmul {}", name(type));
  if (ours.size() != elements * driver::element_bytes(type) || rival.size() != ours.size())
    return wrong(what, "the results have different sizes");
  const Operands operands{type, shape, a, b};
  std::vector<uint64_t> where = disagreeing(type, shape, ours, rival, kMostDecided);
  Disagreement found{.elements = where.size()};
  if (found.elements > kMostDecided) where.resize(1);
  for (const uint64_t i : where | std::views::reverse) {  // what stays is the first
    found.row = i / columns;
    found.column = i % columns;
    found.ours = number(type, ours, i);
    found.rival = number(type, rival, i);
    found.exact = operands.exact(found.row, found.column);
    if (!is_near(type, shape, found.ours, found.exact))
      return wrong_element(type, found.row, found.column, found.ours, found.exact);
    if (!(std::abs(found.rival - found.exact) <= std::abs(found.ours - found.exact)))
      ++found.ours_nearer;
  }
  if (found.elements <= kMostDecided) return found;
  return wrong(what, fmt::format("more than {} elements are far from cuBLAS's: {}", kMostDecided,
                                 text(found)));
}

std::string text(const Disagreement& found) {
  return fmt::format(
      "{} of its elements far from cuBLAS's, ours nearer to f64 for {}; the first is [{},{}]: {} "
      "ours, {} cuBLAS's, {} in f64",
      found.elements, found.ours_nearer, found.row, found.column, found.ours, found.rival,
      found.exact);
}

}  // namespace trek::measure
