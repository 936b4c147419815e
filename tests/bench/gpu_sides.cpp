#include <fmt/format.h>

#include "tests/bench/gpu_bench.h"

namespace trek::bench {

Result<std::vector<Side>> open_sides(GpuBench& bench, const std::string& program,
                                     const Defines& defines,
                                     std::span<const NumericsMode> numerics) {
  std::vector<Side> sides;
  for (const NumericsMode each : numerics) {
    for (const std::unique_ptr<Engine>& engine : bench.engines) {
      Result<std::unique_ptr<BenchProgram>> opened =
          BenchProgram::open(*engine, bench.options.programs, program, each, defines);
      if (!opened) return opened.error();
      sides.push_back({engine.get(), each, fmt::format("{} {}", engine->name(), trek::name(each)),
                       opened.take()});
    }
  }
  return sides;
}

}  // namespace trek::bench
