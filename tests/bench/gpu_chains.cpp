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
  constexpr NumericsMode kStrict[] = {NumericsMode::strict};
  std::vector<std::vector<Side>> chains;
  std::vector<measure::Contender> contenders;
  for (const Chain& chain : kChains) {
    Result<std::vector<Side>> sides = open_sides(bench, chain.program, {}, kStrict);
    if (!sides) return sides.error();
    for (Side& side : *sides)
      contenders.push_back(side.program->contender(side.name, chain.trips / less));
    chains.push_back(sides.take());
  }
  const measure::CeilingBench& device = *bench.natives.device;
  const auto count = static_cast<unsigned>(10000 / less);
  Result<measure::GridBarriers> barriers = measure::GridBarriers::create(device, count);
  if (!barriers) return barriers.error();
  const std::string rival = fmt::format("grid barrier, {} blocks", device.multiprocessors());
  const size_t native = contenders.size();
  for (int i = 0; i < 2; ++i) contenders.push_back(barriers->contender(rival, 128));

  const Result<std::vector<measure::Series>> series =
      measure::measure_interleaved(contenders, bench.options.rounds);
  if (!series) return series.error();
  if (Status ok = barriers->check(); !ok) return ok;
  size_t next = 0;
  for (size_t i = 0; i < std::size(kChains); ++i) {
    for (const Side& side : chains[i]) {
      std::vector<double> seconds = (*series)[next++].seconds;
      for (double& each : seconds) each /= kChains[i].instructions;
      measure::Figure figure = {fmt::format("{}, {}", kChains[i].title, side.engine->name()), "us",
                                measure::estimate(seconds).times(1e6)};
      figure.at_most = kChains[i].at_most;
      bench.recorder.add(std::move(figure));
      if (kChains[i].program != kAcross.program) continue;
      bench.recorder.add(
          {kAcross.title, side.name, rival,
           measure::compare(seconds, (*series)[native].seconds, (*series)[native + 1].seconds),
           1 / kBarriers});
    }
  }
  return Done{};
}

}  // namespace trek::bench
