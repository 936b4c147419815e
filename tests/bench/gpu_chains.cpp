// What a dependence costs: chains of instructions each of which needs all of the one before.
#include <fmt/format.h>

#include "emulator/measure/rivals.h"
#include "tests/bench/gpu_bench.h"

namespace trek::bench {
namespace {

struct Chain {
  const char* program;
  const char* title;
  int trips;
  int instructions;  // of a trip
  double at_most;    // microseconds an instruction; 0: nothing is asked for
};
constexpr Chain kAcross = {"chain_across", "dependent instruction, 64 Ki elements, across blocks",
                           10000, 2, 0};
constexpr Chain kChains[] = {
    kAcross,
    {"chain_within", "dependent pointwise instruction, 64 Ki elements", 20000, 1, 0.5},
    {"scalars", "dependent scalar instruction", 10000, 1, 0}};
constexpr double kBarriers = 1.3;  // an instruction across blocks may take

}  // namespace

Status bench_chains(GpuBench& bench) {
  if (bench.options.check) return Done{};  // nothing native computes the same
  const int less = bench.options.quick ? 100 : 1;
  std::vector<std::unique_ptr<BenchProgram>> programs;
  std::vector<measure::Contender> contenders;
  for (const Chain& chain : kChains) {
    Result<std::unique_ptr<BenchProgram>> program =
        BenchProgram::open(bench.engine, bench.options.programs, chain.program, chain.trips / less,
                           NumericsMode::strict, {});
    if (!program) return program.error();
    programs.push_back(program.take());
    contenders.push_back(programs.back()->contender(chain.program));
  }
  const measure::CeilingBench& device = *bench.natives.device;
  const auto count = static_cast<unsigned>(10000 / less);
  Result<measure::GridBarriers> barriers = measure::GridBarriers::create(device, count);
  if (!barriers) return barriers.error();
  const std::string rival = fmt::format("grid barrier, {} blocks", device.multiprocessors());
  for (int i = 0; i < 2; ++i) contenders.push_back(barriers->contender(rival, 128));

  const Result<std::vector<measure::Series>> series =
      measure::measure_interleaved(contenders, bench.options.rounds);
  if (!series) return series.error();
  if (Status ok = barriers->check(); !ok) return ok;
  const size_t native = std::size(kChains);
  for (size_t i = 0; i < native; ++i) {
    measure::Figure figure = {
        fmt::format("{}, {}", kChains[i].title, bench.engine.name()), "us",
        measure::estimate((*series)[i].seconds).times(1e6 / kChains[i].instructions)};
    figure.at_most = kChains[i].at_most;
    bench.recorder.add(std::move(figure));
  }
  std::vector<double> across = (*series)[0].seconds;
  for (double& seconds : across) seconds /= kAcross.instructions;
  bench.recorder.add(
      {kAcross.title, fmt::format("{} strict", bench.engine.name()), rival,
       measure::compare(across, (*series)[native].seconds, (*series)[native + 1].seconds),
       1 / kBarriers});
  return Done{};
}

}  // namespace trek::bench
