// Bytes: copying and adding arrays far larger than the cache.
#include <fmt/format.h>

#include "emulator/measure/ceiling_bench.h"
#include "emulator/measure/philox.h"

namespace trek::measure {

using driver::DeviceBuffer;
using driver::GemmType;
using driver::Kernel;

namespace {

// Bytes moved per second, in GB/s, from seconds.
Figure bandwidth(const std::string& name, const Series& series, uint64_t bytes) {
  return {name, "GB/s", estimate(series.seconds).as_rate(static_cast<double>(bytes) * 1e-9)};
}

constexpr uint64_t kWindow = 4096;  // elements that are compared at the beginning, middle and end

std::vector<uint64_t> windows(uint64_t elements) {
  return {0, elements / 2 / kWindow * kWindow, elements - kWindow};
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
  const uint64_t bytes = elements * 4;
  const int sets = sets_past_cache(3 * bytes, bench.context().device().l2_bytes);
  const Result<std::vector<DeviceBuffer>> buffers =
      bench.random_buffers(GemmType::f32, elements, 3 * sets);
  if (!buffers) return buffers.error();
  const Result<Kernel> add = bench.kernel("add");
  if (!add) return add.error();

  Turn turn(sets);
  const Contender contender = {"add f32", [&] {
                                 const DeviceBuffer* set = &(*buffers)[3 * turn.next()];
                                 return bench.seconds([&] {
                                   return add->launch(bench.stream(), bench.filling_shape(),
                                                      set[0].address(), set[1].address(),
                                                      set[2].address(), elements / 4);
                                 });
                               }};
  const Result<std::vector<Series>> series =
      measure_interleaved({&contender, 1}, bench.options().rounds);
  if (!series) return series.error();
  for (const uint64_t first : windows(elements)) {
    const Result<std::vector<float>> sum = bench.download<float>((*buffers)[0], first, kWindow);
    if (!sum) return sum.error();
    for (uint64_t i = 0; i < kWindow; ++i) {
      // The operands are random_buffers' second and third.
      if ((*sum)[i] != random_element(1001, first + i) + random_element(1002, first + i)) {
        return wrong("add", fmt::format("element {}", first + i));
      }
    }
  }
  bench.add(bandwidth(fmt::format("add f32, {} MiB", bytes >> 20), series->front(), 3 * bytes));
  return Done{};
}

}  // namespace trek::measure
