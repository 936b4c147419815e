// Bytes: copying and adding arrays far larger than the cache.
#include <fmt/format.h>

#include "emulator/measure/rivals.h"

namespace trek::measure {

using driver::DeviceBuffer;
using driver::GemmType;
using driver::Kernel;

namespace {

// Bytes moved per second, in GB/s, from seconds.
Figure bandwidth(const std::string& name, const Series& series, uint64_t bytes) {
  return {name, "GB/s", estimate(series.seconds).as_rate(static_cast<double>(bytes) * 1e-9)};
}

}  // namespace

Status measure_copy(CeilingBench& bench) {
  const uint64_t elements = uint64_t{1} << (bench.options().quick ? 20 : 28);
  const uint64_t bytes = elements * 4;
  const int sets = sets_past_cache(2 * bytes, bench.context().device().l2_bytes);
  const Result<std::vector<DeviceBuffer>> from =
      bench.random_buffers(GemmType::f32, elements, sets);
  if (!from) return from.error();
  const Result<std::vector<DeviceBuffer>> to = bench.random_buffers(GemmType::f32, elements, sets);
  if (!to) return to.error();
  const Result<Kernel> copy = bench.kernel("copy");
  if (!copy) return copy.error();

  Turn by_kernel(sets);
  Turn by_driver(sets);
  const Contender contenders[] = {
      {"copy by kernel",
       [&] {
         const size_t set = by_kernel.next();
         return bench.seconds([&] {
           return copy->launch(bench.stream(), bench.filling_shape(), (*to)[set].address(),
                               (*from)[set].address(), elements / 4);
         });
       }},
      {"copy by driver",
       [&] {
         const size_t set = by_driver.next();
         return bench.seconds([&] { return (*to)[set].copy_from(bench.stream(), (*from)[set]); });
       }},
  };
  const Result<std::vector<Series>> series =
      measure_interleaved(contenders, bench.options().rounds);
  if (!series) return series.error();
  for (size_t set = 0; set < to->size(); ++set) {
    for (const uint64_t first : windows(elements)) {
      const Result<std::vector<float>> sent = bench.download<float>((*from)[set], first, kWindow);
      const Result<std::vector<float>> got = bench.download<float>((*to)[set], first, kWindow);
      if (!sent) return sent.error();
      if (!got) return got.error();
      if (*sent != *got) return wrong("copy", fmt::format("set {} differs at {}", set, first));
    }
  }
  for (const Series& one : *series) {
    bench.add(bandwidth(fmt::format("{}, {} MiB", one.name, bytes >> 20), one, 2 * bytes));
  }
  return Done{};
}

Status measure_add(CeilingBench& bench) {
  const uint64_t elements = uint64_t{1} << (bench.options().quick ? 20 : 28);
  Result<Additions> additions = Additions::create(bench, elements);
  if (!additions) return additions.error();
  const Contender contender = additions->contender("add f32", 1);
  const Result<std::vector<Series>> series =
      measure_interleaved({&contender, 1}, bench.options().rounds);
  if (!series) return series.error();
  if (const Status right = additions->check(); !right) return right;
  bench.add(bandwidth(fmt::format("add f32, {} MiB", 4 * elements >> 20), series->front(),
                      additions->bytes()));
  return Done{};
}

}  // namespace trek::measure
