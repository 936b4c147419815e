// Arithmetic: matrix products of each type by cuBLAS, on random data, side by side.
#include <fmt/format.h>

#include "emulator/measure/products.h"

namespace trek::measure {

using driver::Cublas;
using driver::GemmType;

namespace {

constexpr GemmType kTypes[] = {GemmType::f32, GemmType::tf32, GemmType::bf16, GemmType::f16};

Status measure_size(CeilingBench& bench, const Cublas& cublas, int size) {
  std::vector<CublasProducts> products;
  for (const GemmType type : kTypes) {
    Result<CublasProducts> one = CublasProducts::create(bench, cublas, type, size, true);
    if (!one) return one.error();
    products.push_back(one.take());
  }
  std::vector<Contender> contenders;
  for (size_t i = 0; i < products.size(); ++i) {
    contenders.push_back(products[i].contender(std::string(name(kTypes[i])), 1));
  }
  const Result<std::vector<Series>> series =
      measure_interleaved(contenders, bench.options().rounds);
  if (!series) return series.error();
  for (size_t i = 0; i < products.size(); ++i) {
    if (Status ok = products[i].check(); !ok) return ok;
    const double flops = 2.0 * size * size * size;
    bench.add({fmt::format("matmul {}, cuBLAS, {}^3", (*series)[i].name, size), "TFLOP/s",
               estimate((*series)[i].seconds).as_rate(flops * 1e-12)});
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
    if (Status ok = measure_size(bench, *cublas, size); !ok) return ok;
  }
  return Done{};
}

}  // namespace trek::measure
