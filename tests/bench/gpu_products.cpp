// Matrix products as one instruction, beside cuBLAS on random operands of the same shape and type.
#include <fmt/format.h>

#include "emulator/measure/rivals.h"
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

Status bench_product(GpuBench& bench, const Product& product) {
  const bool small = bench.options.quick || bench.options.check;
  const int size = small ? kQuickSize : product.size;
  const int trips = small ? 1 : product.trips;
  Result<std::unique_ptr<BenchProgram>> program =
      BenchProgram::open(bench.engine, bench.options.programs, product.program, trips,
                         product.numerics, {{"SIZE", std::to_string(size)}});
  if (!program) return program.error();
  if (Status ran = (*program)->run(); !ran) return ran;
  if (Status right = check(**program, product, size); !right) return right;
  if (bench.options.check) return Done{};

  const std::string ours = fmt::format("{} {}", bench.engine.name(), name(product.numerics));
  const std::string title = fmt::format("matmul {} {}^3", driver::name(product.type), size);
  const double flops = 2e-12 * size * size * size;
  const measure::Contender contender = (*program)->contender(ours);
  if (!bench.natives.cublas) {  // why is noted already
    const Result<std::vector<measure::Series>> alone =
        measure::measure_interleaved({&contender, 1}, bench.options.rounds);
    if (!alone) return alone.error();
    bench.recorder.add(measure::Figure{fmt::format("{}, {}", title, ours), "TFLOP/s",
                                       measure::estimate(alone->front().seconds).as_rate(flops)});
    return Done{};
  }
  Result<measure::CublasProducts> rival = measure::CublasProducts::create(
      *bench.natives.device, *bench.natives.cublas, product.type, size, false);
  if (!rival) return rival.error();
  const Result<measure::Comparison> result =
      measure::compare(contender, rival->contender("cuBLAS", trips), bench.options.rounds);
  if (!result) return result.error();
  if (Status right = rival->check(); !right) return right;
  if (Status right = check(**program, product, size); !right) return right;
  bench.recorder.add({title, ours, "cuBLAS", *result, product.asked});
  bench.recorder.add(
      measure::Figure{fmt::format("{}, {}", title, ours), "TFLOP/s", result->ours.as_rate(flops)});
  bench.recorder.add(measure::Figure{title + ", cuBLAS", "TFLOP/s", result->rival.as_rate(flops)});
  return Done{};
}

}  // namespace

Status bench_product_bf16(GpuBench& bench) { return bench_product(bench, kBf16); }
Status bench_product_f32(GpuBench& bench) { return bench_product(bench, kF32); }

}  // namespace trek::bench
