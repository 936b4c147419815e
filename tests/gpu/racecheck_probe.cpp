// racecheck-probe: launches kernels whose races are known, once each, for compute-sanitizer to look at. Without it
// the program checks their results, of those that have no race. racecheck.sh says what is to be found.
//
//   racecheck-probe [KERNEL]     that one alone
//
// Exit codes: 0, 1 a result is wrong or the device failed, 77 there is no device.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <generated/racecheck_kernels.h>
#include <generated/racecheck_without_sync.h>

#include "assembler/assemble.h"
#include "emulator/device/describe.h"
#include "emulator/driver/memory.h"
#include "emulator/driver/module.h"
#include "emulator/plan/link.h"
#include "isa/semantics/elements.h"

namespace trek {
namespace {

constexpr const char* kHandovers[] = {
#define TREK_HANDOVER(NAME, ...) "handover_" #NAME,
#include "tests/gpu/racecheck_handovers.def"
#undef TREK_HANDOVER
};
constexpr uint32_t kRounds = 6;
constexpr int64_t kLines = 6;
constexpr int64_t kElements = 300;

template <class T>
T must(driver::Result<T> result) {
  if (result) return result.take();
  fmt::print("{}\n", result.error().text());
  std::exit(1);
}
void must(const driver::Status& status) {
  if (status) return;
  fmt::print("{}\n", status.error().text());
  std::exit(1);
}

bool has_race(std::string_view kernel) {
  return kernel.find("_without_") != std::string_view::npos;
}

class Probe {
 public:
  explicit Probe(driver::Context context)
      : context_(std::move(context)),
        stream_(must(driver::Stream::create(context_))),
        memory_(must(driver::DeviceBuffer::allocate(context_, 1 << 20))) {}

  // The sums of the reading threads: each has read a lane's word of every round.
  bool hand_over(const driver::Module& module, const std::string& name) {
    std::vector<uint32_t> words(size_t{32} * kRounds);
    std::iota(words.begin(), words.end(), 0u);
    std::vector<uint32_t> sums(64);
    must(memory_.fill(stream_, std::byte{0}));
    must(memory_.upload(stream_, std::as_bytes(std::span(words))));
    driver::LaunchShape shape;
    shape.block = {128, 1, 1};
    must(must(module.kernel(name))
             .launch(stream_, shape, memory_.address(),
                     driver::CuDevicePointer{memory_.address() + 4096}));
    must(memory_.download(stream_, std::as_writable_bytes(std::span(sums)), 4096));
    must(stream_.synchronize());
    const bool stores = name.find("copies") == std::string::npos;
    const bool copies = name.find("stores") == std::string::npos;
    for (uint32_t thread = 0; thread < sums.size(); ++thread) {
      const uint32_t lane = (thread + 5) % 32;
      uint32_t want = 0;
      for (uint32_t n = 0; n < kRounds; ++n) {
        if (stores) want += 32 * n + lane;
        if (copies) want += 32 * n + lane % 16;
      }
      if (sums[thread] != want) return false;
    }
    return true;
  }

  // A softmax of lines of equal numbers, along an axis that is not the last: those are staged, which syncs keep in order.
  bool softmax(const driver::Module& module, const std::string& name) {
    const Assembly assembly = assemble_text(
        "softmax.trek", fmt::format(".trek 1.0\n.state @x f32[{0},{1}]\n.state @y f32[{0},{1}]\n"
                                    ".func main() {{\n  @y = softmax @x, axis=0\n}}\n",
                                    kElements, kLines));
    if (!assembly.ok()) return false;
    plan::Device device;
    device.processors = 1;
    device.tiles_per_processor = device.tasks_per_processor = 1;
    const auto plan = plan::link(assembly.module, device, {});
    if (!plan || plan->nodes.size() != 1) return false;
    const device::Described described = device::describe(*plan, 0);
    std::vector<float> x(kLines * kElements, 0.5f);
    constexpr uint64_t kArena = 65536;
    const auto at = [&](uint32_t tensor) {
      return kArena + static_cast<uint64_t>(plan->buffers[tensor].offset);
    };
    must(memory_.upload(stream_, described.bytes));
    must(memory_.upload(stream_, std::as_bytes(std::span(x)), at(0)));
    driver::LaunchShape shape;
    shape.block = {device::kBlockThreads, 1, 1};
    shape.shared_bytes = device::kSharedBytes;
    const driver::Kernel kernel = must(module.kernel(name));
    must(kernel.allow_shared_bytes(shape.shared_bytes));
    must(kernel.launch(stream_, shape, memory_.address(),
                       driver::CuDevicePointer{memory_.address() + kArena}, kLines));
    must(memory_.download(stream_, std::as_writable_bytes(std::span(x)), at(1)));
    must(stream_.synchronize());
    return std::all_of(x.begin(), x.end(),
                       [](float value) { return value == 1.0f / static_cast<float>(kElements); });
  }

  // All kernels, or the one that is called `only`.
  int run(std::string_view only) {
    const driver::Module kernels =
        must(driver::Module::load(context_, fat_binaries::racecheck_kernels));
    const driver::Module without =
        must(driver::Module::load(context_, fat_binaries::racecheck_without_sync));
    int wrong = 0;
    int launched = 0;
    const auto launch = [&](const std::string& name, auto kernel) {
      if (!only.empty() && name != only) return;
      ++launched;
      const bool right = kernel(name);
      fmt::print("{} {}\n", name, right ? "right" : has_race(name) ? "wrong, as may be" : "WRONG");
      if (!right && !has_race(name)) ++wrong;
    };
    for (const char* each : kHandovers)
      launch(each, [&](const std::string& name) { return hand_over(kernels, name); });
    launch("softmax_with_sync", [&](const std::string& name) { return softmax(kernels, name); });
    launch("softmax_without_sync", [&](const std::string& name) { return softmax(without, name); });
    if (launched == 0) fmt::print("no kernel is called {}\n", only);
    return wrong == 0 && launched > 0 ? 0 : 1;
  }

 private:
  driver::Context context_;
  driver::Stream stream_;
  driver::DeviceBuffer memory_;
};

}  // namespace
}  // namespace trek

int main(int count, char** words) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what a kernel that hangs does not take with it
  const auto cuda = trek::driver::Cuda::load();
  if (!cuda) {
    fmt::print("skipped: {}\n", cuda.error().text());
    return 77;
  }
  auto context = trek::driver::Context::open(*cuda, 0);
  if (!context) {
    fmt::print("skipped: {}\n", context.error().text());
    return 77;
  }
  return trek::Probe(context.take()).run(count > 1 ? words[1] : "");
}
