#include "emulator/measure/ceiling_bench.h"

#include <fmt/format.h>
#include <generated/ceilings.h>

namespace trek::measure {

using driver::DeviceBuffer;
using driver::GemmType;
using driver::Kernel;

namespace {

std::string fill_kernel(GemmType type) {
  switch (type) {
    case GemmType::bf16:
      return "fill_bf16";
    case GemmType::f16:
      return "fill_f16";
    case GemmType::f32:
    case GemmType::tf32:
      break;
  }
  return "fill_f32";
}

}  // namespace

Result<CeilingBench> CeilingBench::create(const driver::Context& context,
                                          const CeilingOptions& options) {
  CeilingBench bench(context);
  bench.options_ = &options;
  Result<driver::Stream> stream = driver::Stream::create(context);
  if (!stream) return stream.error();
  Result<GpuClock> clock = GpuClock::create(context);
  if (!clock) return clock.error();
  Result<driver::Module> module = driver::Module::load(context, fat_binaries::ceilings);
  if (!module) return module.error();
  bench.stream_ = stream.take();
  bench.clock_ = clock.take();
  bench.module_ = module.take();
  return bench;
}

driver::LaunchShape CeilingBench::filling_shape() const {
  driver::LaunchShape shape;
  shape.block = {256, 1, 1};
  const int blocks = context_.device().max_threads_per_multiprocessor / 256;
  shape.grid = {static_cast<unsigned>(multiprocessors() * blocks), 1, 1};
  return shape;
}

Result<std::vector<DeviceBuffer>> CeilingBench::random_buffers(GemmType type, uint64_t elements,
                                                               int count) const {
  const Result<Kernel> fill = kernel(fill_kernel(type));
  if (!fill) return fill.error();
  std::vector<DeviceBuffer> buffers;
  for (int i = 0; i < count; ++i) {
    Result<DeviceBuffer> buffer =
        DeviceBuffer::allocate(context_, elements * driver::element_bytes(type));
    if (!buffer) return buffer.error();
    const uint64_t key = 1000 + static_cast<uint64_t>(i);
    const Status status = fill->launch(stream(), filling_shape(), buffer->address(), elements, key);
    if (!status) return status.error();
    buffers.push_back(buffer.take());
  }
  if (const Status status = stream().synchronize(); !status) return status.error();
  return buffers;
}

Error wrong(const std::string& what, const std::string& detail) {
  return {"checking the result of " + what, "", detail};
}

void CeilingBench::add(Figure figure) {
  if (options_->on_figure) options_->on_figure(figure);
  results_.figures.push_back(std::move(figure));
}

}  // namespace trek::measure
