// Matrix products as one instruction, beside cuBLAS on random operands of the same shape and type.
#include <fmt/format.h>

#include "emulator/measure/products.h"
#include "tests/bench/gpu_bench.h"

namespace trek::bench {
namespace {

using driver::GemmType;

struct Product {
  const char* program;
  GemmType type;
  NumericsMode numerics;
  int size;
  int trips;
  double asked;  // cuBLAS's time ÷ ours
};
constexpr Product kBf16 = {"product_bf16", GemmType::bf16, NumericsMode::fast, 8192, 16, 0.95};
constexpr Product kF32 = {"product_f32", GemmType::f32, NumericsMode::strict, 4096, 8, 0.9};
constexpr int kQuickSize = 512;

Status check(BenchProgram& program, const Product& product, int size) {
  std::vector<std::byte> matrices[3];
  for (size_t i = 0; i < 3; ++i) {
    Result<std::vector<std::byte>> matrix = program.read(std::string(1, "abc"[i]));
    if (!matrix) return matrix.error();
    matrices[i] = matrix.take();
  }
  return measure::check_product(product.type, {size, size, size, false}, matrices[0], matrices[1],
                                matrices[2]);
}

// Ours without cuBLAS; why it is missing is noted already.
Status measure_alone(GpuBench& bench, const std::string& title, double flops,
                     std::span<const measure::Contender> ours) {
  const Result<std::vector<measure::Series>> alone =
      measure::measure_interleaved(ours, bench.options.rounds);
  if (!alone) return alone.error();
  for (const measure::Series& each : *alone)
    bench.recorder.add(measure::Figure{fmt::format("{}, {}", title, each.name), "TFLOP/s",
                                       measure::estimate(each.seconds).as_rate(flops)});
  return Done{};
}

Status bench_product(GpuBench& bench, const Product& product) {
  const bool small = bench.options.quick || bench.options.check;
  const int size = small ? kQuickSize : product.size;
  const int trips = small ? 1 : product.trips;
  const NumericsMode numerics[] = {product.numerics};
  Result<std::vector<Side>> sides =
      open_sides(bench, product.program, {{"SIZE", std::to_string(size)}}, numerics);
  if (!sides) return sides.error();
  std::vector<measure::Contender> contenders;
  for (Side& side : *sides) {
    if (Status ran = side.program->run(1); !ran) return ran;
    if (Status right = check(*side.program, product, size); !right) return right;
    contenders.push_back(side.program->contender(side.name, trips));
  }
  if (bench.options.check) return Done{};

  const std::string title = fmt::format("matmul {} {}^3", driver::name(product.type), size);
  const double flops = 2e-12 * size * size * size;
  if (!bench.natives.cublas) return measure_alone(bench, title, flops, contenders);
  Result<measure::CublasProducts> rival = measure::CublasProducts::create(
      *bench.natives.device, *bench.natives.cublas, product.type, size, false);
  if (!rival) return rival.error();
  for (int i = 0; i < 2; ++i)  // the second for the A/A band
    contenders.push_back(rival->contender("cuBLAS", trips));
  const Result<std::vector<measure::Series>> series =
      measure::measure_interleaved(contenders, bench.options.rounds);
  if (!series) return series.error();
  if (Status right = rival->check(); !right) return right;
  const size_t native = sides->size();
  for (size_t i = 0; i < native; ++i) {
    const Side& side = (*sides)[i];
    if (Status right = check(*side.program, product, size); !right) return right;
    const measure::Comparison result = measure::compare(
        (*series)[i].seconds, (*series)[native].seconds, (*series)[native + 1].seconds);
    bench.recorder.add({title, side.name, "cuBLAS", result, product.asked});
    bench.recorder.add(measure::Figure{fmt::format("{}, {}", title, side.name), "TFLOP/s",
                                       result.ours.as_rate(flops)});
  }
  bench.recorder.add(measure::Figure{title + ", cuBLAS", "TFLOP/s",
                                     measure::estimate((*series)[native].seconds).as_rate(flops)});
  return Done{};
}

}  // namespace

Status bench_product_bf16(GpuBench& bench) { return bench_product(bench, kBf16); }
Status bench_product_f32(GpuBench& bench) { return bench_product(bench, kF32); }

}  // namespace trek::bench
