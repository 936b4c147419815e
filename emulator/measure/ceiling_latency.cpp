// Latency: a barrier across the grid, the launch of a kernel, a node of a graph.
#include <fmt/format.h>

#include "emulator/measure/rivals.h"

namespace trek::measure {

using driver::Graph;
using driver::Kernel;
using driver::LaunchShape;

Status measure_barrier(CeilingBench& bench) {
  Result<GridBarriers> barriers = GridBarriers::create(bench, bench.options().quick ? 10 : 1000);
  if (!barriers) return barriers.error();
  std::vector<Contender> contenders;
  for (const unsigned threads : {128u, 256u, 512u}) {
    contenders.push_back(barriers->contender(
        fmt::format("grid barrier, {} blocks of {}", bench.multiprocessors(), threads), threads));
  }
  const Result<std::vector<Series>> series =
      measure_interleaved(contenders, bench.options().rounds);
  if (!series) return series.error();
  if (Status ok = barriers->check(); !ok) return ok;
  for (const Series& one : *series) {
    bench.add({one.name, "us", estimate(one.seconds).times(1e6)});
  }
  return Done{};
}

Status measure_launch(CeilingBench& bench) {
  const Result<Kernel> nothing = bench.kernel("nothing");
  if (!nothing) return nothing.error();
  const int count = bench.options().quick ? 10 : 1000;
  LaunchShape shape;
  shape.grid = {static_cast<unsigned>(bench.multiprocessors()), 1, 1};
  shape.block = {256, 1, 1};
  LaunchShape early = shape;
  early.programmatic = true;
  const auto launch_all = [&](const LaunchShape& each) {
    Status status = Done{};
    for (int i = 0; i < count && status; ++i) status = nothing->launch(bench.stream(), each);
    return status;
  };
  const auto record = [&](const LaunchShape& each) {
    return Graph::capture(bench.context(), bench.stream(), [&] { return launch_all(each); });
  };

  const Result<Graph> plain = record(shape);
  if (!plain) return plain.error();
  std::vector<Contender> contenders = {
      {"kernel launch on a stream",
       [&] { return bench.seconds([&] { return launch_all(shape); }); }},
      {"node of a graph",
       [&] { return bench.seconds([&] { return plain->launch(bench.stream()); }); }}};
  std::optional<Graph> overlapping;
  if (bench.context().device().capability >= driver::Version{9, 0}) {
    Result<Graph> recorded = record(early);
    if (!recorded) return recorded.error();
    overlapping = recorded.take();
    contenders.push_back(
        {"node of a graph, programmatic launch",
         [&] { return bench.seconds([&] { return overlapping->launch(bench.stream()); }); }});
  }
  const Result<std::vector<Series>> series =
      measure_interleaved(contenders, bench.options().rounds);
  if (!series) return series.error();
  for (const Series& one : *series) {
    bench.add({one.name, "us", estimate(one.seconds).times(1e6 / count)});
  }
  return Done{};
}

}  // namespace trek::measure
