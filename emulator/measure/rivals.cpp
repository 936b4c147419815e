#include "emulator/measure/rivals.h"

#include <fmt/format.h>

#include "emulator/measure/philox.h"

namespace trek::measure {

using driver::DeviceBuffer;
using driver::GemmType;

Result<GridBarriers> GridBarriers::create(const CeilingBench& bench, unsigned count) {
  Result<driver::Kernel> kernel = bench.kernel("barriers");
  if (!kernel) return kernel.error();
  Result<DeviceBuffer> counter = DeviceBuffer::allocate(bench.context(), 256);
  if (!counter) return counter.error();
  if (Status zeroed = counter->fill(bench.stream(), std::byte{0}); !zeroed) return zeroed.error();
  return GridBarriers(bench, kernel.take(), counter.take(), count);
}

Contender GridBarriers::contender(std::string name, unsigned threads) {
  return {std::move(name), [this, threads]() -> Result<double> {
            driver::LaunchShape shape;
            shape.grid = {static_cast<unsigned>(bench_->multiprocessors()), 1, 1};
            shape.block = {threads, 1, 1};
            shape.cooperative = true;
            const unsigned from = base_;
            base_ += count_ * shape.grid[0];
            const Result<double> seconds = bench_->seconds([&] {
              return kernel_.launch(bench_->stream(), shape, counter_.address(), from, count_);
            });
            if (!seconds) return seconds.error();
            return *seconds / count_;
          }};
}

Status GridBarriers::check() const {
  const Result<std::vector<unsigned>> seen = bench_->download<unsigned>(counter_, 0, 1);
  if (!seen) return seen.error();
  if (seen->front() != base_) return wrong("grid barrier", "arrivals were lost");
  return Done{};
}

std::vector<uint64_t> windows(uint64_t elements) {
  return {0, elements / 2 / kWindow * kWindow, elements - kWindow};
}

Result<Additions> Additions::create(const CeilingBench& bench, uint64_t elements) {
  Result<driver::Kernel> kernel = bench.kernel("add");
  if (!kernel) return kernel.error();
  const int sets = sets_past_cache(3 * sizeof(float) * elements, bench.context().device().l2_bytes);
  Result<std::vector<DeviceBuffer>> buffers =
      bench.random_buffers(GemmType::f32, elements, 3 * sets);
  if (!buffers) return buffers.error();
  return Additions(bench, kernel.take(), elements, sets, buffers.take());
}

Status Additions::enqueue(int repeats) {
  Status status = Done{};
  for (int i = 0; i < repeats && status; ++i) {
    const DeviceBuffer* set = &buffers_[3 * turn_.next()];
    status = kernel_.launch(bench_->stream(), bench_->filling_shape(), set[0].address(),
                            set[1].address(), set[2].address(), elements_ / 4);
  }
  return status;
}

Contender Additions::contender(std::string name, int repeats) {
  return {std::move(name), [this, repeats]() -> Result<double> {
            const Result<double> seconds = bench_->seconds([&] { return enqueue(repeats); });
            if (!seconds) return seconds.error();
            return *seconds / repeats;
          }};
}

Status Additions::check() const {
  for (const uint64_t first : windows(elements_)) {
    const Result<std::vector<float>> sum = bench_->download<float>(buffers_[0], first, kWindow);
    if (!sum) return sum.error();
    for (uint64_t i = 0; i < kWindow; ++i) {
      // The operands are random_buffers' second and third.
      if ((*sum)[i] != random_element(1001, first + i) + random_element(1002, first + i))
        return wrong("add", fmt::format("element {}", first + i));
    }
  }
  return Done{};
}

}  // namespace trek::measure
