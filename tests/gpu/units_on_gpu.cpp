// with_units() of the tests of emulator/device, on a GPU: tests/unit/device/units_test.cpp linked with this
// file holds the units as the device has them to the same bits and traps. A task is one launch of the probe
// kernel, with the arena brought there and back, so it is slow and says nothing of speed.
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>

#include <catch2/catch.hpp>
#include <generated/units_kernel.h>
#include <generated/units_kernel_core.h>

#include "emulator/device/describe.h"
#include "emulator/driver/context.h"
#include "emulator/driver/cuda.h"
#include "emulator/driver/memory.h"
#include "emulator/driver/module.h"
#include "emulator/driver/stream.h"
#include "tests/unit/device/units.h"

namespace trek::device::test {
namespace {

using driver::CuDevicePointer;
using driver::DeviceBuffer;

template <class T>
T must(driver::Result<T> result) {
  if (!result) FAIL(result.error().text());
  return result.take();
}
void must(const driver::Status& status) {
  if (!status) FAIL(status.error().text());
}

// What units_kernel.cu takes.
struct ProbeTask {
  CuDevicePointer node;
  int64_t first;
  int64_t count;
};
struct ProbeEnvironment {
  CuDevicePointer arena;
  uint64_t seed;
  CuDevicePointer counters;
};

class Gpu {
 public:
  Gpu()
      : cuda_(must(driver::Cuda::load())),
        context_(must(driver::Context::open(cuda_, 0))),
        stream_(must(driver::Stream::create(context_))),
        full_(must(driver::Module::load(context_, fat_binaries::units_kernel))),
        core_(must(driver::Module::load(context_, fat_binaries::units_kernel_core))),
        full_kernel_(must(full_.kernel("execute_tasks"))),
        core_kernel_(must(core_.kernel("execute_tasks"))) {
    must(full_kernel_.allow_shared_bytes(kSharedBytes));
    must(core_kernel_.allow_shared_bytes(kSharedBytes));
    for (const auto* kernel : {&full_kernel_, &core_kernel_})
      std::cout << "registers " << kernel->registers() << ", local bytes " << kernel->local_bytes()
                << "\n";
  }

  Fault execute(const Described& described, const plan::Task& task, std::span<std::byte> arena,
                uint64_t seed, const std::vector<int64_t>& counters) {
    const CuDevicePointer memory = room(arena_, arena.size());
    const CuDevicePointer record = room(record_, described.bytes.size() + 4096);
    const size_t counters_at = (described.bytes.size() + 255) / 256 * 256;
    const size_t task_at = counters_at + 1024;
    const size_t fault_at = task_at + 256;
    const ProbeTask probe{record, task.first, task.count};
    must(arena_.upload(stream_, arena));
    must(record_.upload(stream_, described.bytes));
    if (!counters.empty())
      must(record_.upload(stream_, std::as_bytes(std::span(counters)), counters_at));
    must(record_.upload(stream_, std::as_bytes(std::span(&probe, 1)), task_at));
    driver::LaunchShape shape;
    shape.block = {384, 1, 1};
    shape.shared_bytes = kSharedBytes;
    const ProbeEnvironment environment{memory, seed, record + counters_at};
    must((described.needs_full ? full_kernel_ : core_kernel_)
             .launch(stream_, shape, CuDevicePointer{record + task_at}, uint32_t{1}, environment,
                     CuDevicePointer{record + fault_at}));
    Fault fault{};
    must(arena_.download(stream_, arena));
    must(record_.download(stream_, std::as_writable_bytes(std::span(&fault, 1)), fault_at));
    must(stream_.synchronize());
    return fault;
  }

 private:
  CuDevicePointer room(DeviceBuffer& buffer, size_t bytes) {
    if (buffer.bytes() < bytes) buffer = must(DeviceBuffer::allocate(context_, 2 * bytes + 4096));
    return buffer.address();
  }

  driver::Cuda cuda_;
  driver::Context context_;
  driver::Stream stream_;
  driver::Module full_;
  driver::Module core_;
  driver::Kernel full_kernel_;
  driver::Kernel core_kernel_;
  DeviceBuffer arena_;
  DeviceBuffer record_;
};

}  // namespace

bool fast_is_ordered() { return false; }

plan::Device device_of_units(int processors) {
  plan::Device device = plan::test::small_device(processors);
  device.interprets = true;
  return device;
}

std::function<void(const plan::Plan&, plan::InterpretOptions&, int64_t&)> with_units(uint32_t) {
  if (const auto cuda = driver::Cuda::load(); !cuda) {
    std::cout << "trek-skipped: " << cuda.error().text() << "\n";
    std::exit(0);  // Catch2's second version cannot skip a case
  }
  static Gpu gpu;
  return [](const plan::Plan& plan, plan::InterpretOptions& options, int64_t& arena_bytes) {
    auto nodes = std::make_shared<std::vector<Described>>();
    arena_bytes = (arena_bytes + 255) / 256 * 256;
    for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
      nodes->push_back(describe(plan, n));
      nodes->back().set_scratch(arena_bytes);
      arena_bytes += nodes->back().scratch_bytes;
    }
    const uint64_t seed = options.random_seed;
    options.execute =
        [nodes, seed, &plan](
            uint32_t index, std::span<std::byte> arena,
            const plan::InterpretOptions::Counter& counter) -> std::optional<plan::Executed> {
      const plan::Task& task = plan.tasks[index];
      const Described& described = (*nodes)[task.node];
      if (static_cast<Kind>(described.node().kind) == Kind::engine) return std::nullopt;
      std::vector<int64_t> counters;
      for (uint32_t region : described.counter_regions) counters.push_back(counter(region));
      const Fault fault = gpu.execute(described, task, arena, seed, counters);
      if (fault.code == 0) return plan::Executed{};
      return plan::Executed{static_cast<isa::TrapCode>(fault.code), fault.element};
    };
  };
}

}  // namespace trek::device::test
