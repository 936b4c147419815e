// semantics-bits: the functions of isa/semantics give the same bits on this GPU as on this host.
//
// Every function is evaluated on both sides over the same inputs (each of the 2^32 floats for the unary
// ones) and compared by one hash a block of 2^20. Where hashes differ, the first input that differs is
// found and shown. This is the foundation of "all engines agree bit for bit": one meaning, two compilers
// (gcc or clang for x86, clang-19 and ptxas for the device), no libm on either side.
//
//   semantics-bits [--only NAME] [--device N] [--threads N] [--json FILE]
//
// Exit codes: 0 all equal, 1 wrong usage, 2 a difference, 3 the device failed, 5 the report could not be
// written, 77 no GPU here.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <generated/semantics_kernels.h>

#include "emulator/driver/memory.h"
#include "emulator/driver/module.h"
#include "emulator/driver/support.h"
#include "emulator/measure/cpu_clock.h"
#include "emulator/measure/report.h"
#include "tests/gpu/semantics_host.h"

namespace trek::bits {
namespace {

using driver::Context;
using driver::DeviceBuffer;
using driver::Done;
using driver::Error;
using driver::Kernel;
using driver::Module;
using driver::Result;
using driver::Status;
using driver::Stream;

constexpr int kAllEqual = 0;
constexpr int kWrongUsage = 1;
constexpr int kDifference = 2;
constexpr int kDeviceFailed = 3;
constexpr int kNotWritten = 5;
constexpr int kSkipped = 77;

constexpr uint64_t kBlockInputs = uint64_t{1} << 20;  // semantics_inputs.h's kBlock

// Blocks of inputs that a function is asked about: every float, or drawn ones.
uint64_t blocks_of(const HostFunction& function) {
  if (function.every) return (uint64_t{1} << 32) / kBlockInputs;
  return (function.bytes == 4 ? uint64_t{1} << 30 : uint64_t{1} << 28) / kBlockInputs;
}

std::vector<uint64_t> host_hashes(const HostFunction& function, int threads) {
  std::vector<uint64_t> hashes(blocks_of(function));
  std::atomic<uint64_t> next = 0;
  const auto work = [&] {
    for (uint64_t block = next++; block < hashes.size(); block = next++) {
      hashes[block] = function.hash(block);
    }
  };
  std::vector<std::thread> pool;
  for (int i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  return hashes;
}

// The device's side: hashes and single blocks of results.
class Device {
 public:
  static Result<Device> open(int ordinal) {
    const Result<driver::Cuda> cuda = driver::Cuda::load();
    if (!cuda) return cuda.error();
    const Result<Context> context = Context::open(*cuda, ordinal);
    if (!context) return context.error();
    Result<Stream> stream = Stream::create(*context);
    if (!stream) return stream.error();
    Result<Module> module = Module::load(*context, fat_binaries::semantics_kernels);
    if (!module) return module.error();
    return Device(*context, stream.take(), module.take(), cuda->version().text());
  }

  std::string name() const { return context_.device().text(); }
  const std::string& driver_version() const { return version_; }

  Result<std::vector<uint64_t>> hashes(const HostFunction& function) const {
    const Result<Kernel> kernel =
        module_.kernel(fmt::format("hash_{}_{}", function.type, function.name));
    if (!kernel) return kernel.error();
    std::vector<uint64_t> values(blocks_of(function));
    const Result<DeviceBuffer> buffer =
        DeviceBuffer::allocate(context_, values.size() * sizeof(uint64_t));
    if (!buffer) return buffer.error();
    driver::LaunchShape shape;
    shape.grid = {static_cast<unsigned>(values.size()), 1, 1};
    shape.block = {256, 1, 1};
    Status status = buffer->fill(stream_, std::byte{0});
    if (status) status = kernel->launch(stream_, shape, buffer->address(), uint64_t{0});
    if (status) {
      status = buffer->download(stream_, std::as_writable_bytes(std::span(values)));
    }
    if (status) status = stream_.synchronize();
    if (!status) return status.error();
    return values;
  }

  // The bits of the results of one block of inputs.
  Result<std::vector<uint64_t>> results(const HostFunction& function, uint64_t block) const {
    const Result<Kernel> kernel =
        module_.kernel(fmt::format("results_{}_{}", function.type, function.name));
    if (!kernel) return kernel.error();
    const auto bytes = static_cast<uint64_t>(function.bytes);
    const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(context_, kBlockInputs * bytes);
    if (!buffer) return buffer.error();
    std::vector<std::byte> raw(kBlockInputs * bytes);
    driver::LaunchShape shape;
    shape.grid = {1024, 1, 1};
    shape.block = {256, 1, 1};
    Status status =
        kernel->launch(stream_, shape, buffer->address(), block * kBlockInputs, kBlockInputs);
    if (status) status = buffer->download(stream_, raw);
    if (status) status = stream_.synchronize();
    if (!status) return status.error();
    std::vector<uint64_t> values(kBlockInputs);
    for (uint64_t i = 0; i < kBlockInputs; ++i) {
      std::memcpy(&values[i], raw.data() + i * bytes, bytes);
    }
    return values;
  }

 private:
  Device(Context context, Stream stream, Module module, std::string version)
      : context_(std::move(context)),
        stream_(std::move(stream)),
        module_(std::move(module)),
        version_(std::move(version)) {}
  Context context_;
  Stream stream_;
  Module module_;
  std::string version_;
};

bool same_value(const HostFunction& function, uint64_t a, uint64_t b) {
  const uint64_t sign = uint64_t{1} << (8 * function.bytes - 1);
  const uint64_t infinity = function.bytes == 4 ? 0x7f800000 : uint64_t{0x7ff} << 52;
  const bool both_nan = (a & ~sign) > infinity && (b & ~sign) > infinity;
  return a == b || both_nan;
}

// The first input of a block on which the device's function `theirs` differs from the host's `ours`.
Result<uint64_t> first_difference(const Device& device, const HostFunction& ours,
                                  const HostFunction& theirs, uint64_t block) {
  const Result<std::vector<uint64_t>> results = device.results(theirs, block);
  if (!results) return results.error();
  for (uint64_t i = 0; i < kBlockInputs; ++i) {
    const uint64_t index = block * kBlockInputs + i;
    if (!same_value(ours, ours.result_bits(index), (*results)[i])) return index;
  }
  return Error{"looking for the first difference", "", "hashes differ and no result does"};
}

// The f32 function of a name that the table has.
const HostFunction& function_named(std::string_view name) {
  const std::span<const HostFunction> all = host_functions();
  return *std::find_if(all.begin(), all.end(), [&](const HostFunction& function) {
    return function.bytes == 4 && function.name == name;
  });
}

// The comparison can fail: floor on the host against ceil on the device differ, first at the smallest
// subnormal, where one is 0 and the other 1.
Status check_that_differences_show(const Device& device) {
  const HostFunction& floor = function_named("floor");
  const HostFunction& ceil = function_named("ceil");
  const Result<std::vector<uint64_t>> hashes = device.hashes(ceil);
  if (!hashes) return hashes.error();
  if (hashes->front() == floor.hash(0)) {
    return Error{"checking the comparison", "", "floor and ceil have one hash"};
  }
  const Result<uint64_t> index = first_difference(device, floor, ceil, 0);
  if (!index) return index.error();
  if (*index != 1) return Error{"checking the comparison", "", "floor and ceil differ elsewhere"};
  return Done{};
}

struct Tally {
  int functions = 0;
  int differing = 0;
  uint64_t inputs = 0;
};

// Compares one function; says what came out.
Status compare(const Device& device, const HostFunction& function, int threads, Tally& tally) {
  Result<std::vector<uint64_t>> theirs = Error{};
  const double device_seconds = measure::cpu_seconds([&] { theirs = device.hashes(function); });
  if (!theirs) return theirs.error();
  std::vector<uint64_t> ours;
  const double host_seconds = measure::cpu_seconds([&] { ours = host_hashes(function, threads); });
  const uint64_t inputs = ours.size() * kBlockInputs;
  tally.functions += 1;
  tally.inputs += inputs;

  uint64_t differing = 0;
  uint64_t first_block = 0;
  for (uint64_t block = ours.size(); block-- > 0;) {
    if (ours[block] == (*theirs)[block]) continue;
    ++differing;
    first_block = block;
  }
  fmt::print("{} {:<16} {:>10} inputs  {}  device {:.3f} s, host {:.2f} s\n", function.type,
             function.name, inputs, differing == 0 ? "equal" : "DIFFERENT", device_seconds,
             host_seconds);
  std::fflush(stdout);
  if (differing == 0) return Done{};

  tally.differing += 1;
  const Result<uint64_t> index = first_difference(device, function, function, first_block);
  if (!index) return index.error();
  const Result<std::vector<uint64_t>> results = device.results(function, first_block);
  if (!results) return results.error();
  char input[160] = "";
  describe_input(function, *index, input, sizeof input);
  fmt::print("  {} of {} blocks differ; first at {}: host {:x}, device {:x}\n", differing,
             ours.size(), input, function.result_bits(*index), (*results)[*index % kBlockInputs]);
  return Done{};
}

struct Arguments {
  int device = 0;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::string only;
  std::string json;
};

measure::Figure count(const std::string& name, uint64_t value) {
  const auto number = static_cast<double>(value);
  return {name, "", {number, {number, number}, 1}};
}

int compare_all(const Device& device, const Arguments& arguments, int argc,
                const char* const* argv) {
  Tally tally;
  measure::Report report;
  Status status = check_that_differences_show(device);
  for (const HostFunction& function : host_functions()) {
    if (!arguments.only.empty() && arguments.only != function.name) continue;
    const int before = tally.differing;
    if (status) status = compare(device, function, arguments.threads, tally);
    report.figures.push_back(count(fmt::format("{} {}: differing inputs of {}", function.type,
                                               function.name, blocks_of(function) * kBlockInputs),
                                   static_cast<uint64_t>(tally.differing - before)));
  }
  if (!status) {
    fmt::print(stderr, "semantics-bits: {}\n", status.error().text());
    return kDeviceFailed;
  }
  fmt::print("{} functions, {} results on each side, {} functions differ\n", tally.functions,
             tally.inputs, tally.differing);
  if (!arguments.json.empty()) {
    report.setting = measure::describe_setting("semantics-bits", argc, argv);
    report.setting.hardware.emplace_back("gpu", device.name());
    report.setting.versions = {{"cuda_driver", device.driver_version()},
                               {"nvidia_driver", driver::nvidia_driver_version()}};
    report.figures.push_back(count("results compared", tally.inputs));
    const Status written = measure::write_file(arguments.json, to_json(report));
    if (!written) {
      fmt::print(stderr, "semantics-bits: {}\n", written.error().text());
      return kNotWritten;
    }
  }
  return tally.differing == 0 ? kAllEqual : kDifference;
}

int run(int argc, const char* const* argv) {
  CLI::App app("Bits of isa/semantics on this GPU and on this host.", "semantics-bits");
  Arguments arguments;
  app.add_option("--only", arguments.only, "One function, as exp");
  app.add_option("--device", arguments.device, "Which GPU, counted from 0");
  app.add_option("--threads", arguments.threads, "Of the host")->check(CLI::Range(1, 4096));
  app.add_option("--json", arguments.json, "Write the report there");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kAllEqual : kWrongUsage;
  }
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    fmt::print("trek-skipped: this processor has no AVX2 and FMA\n");
    return kSkipped;
  }
  if (fat_binaries::semantics_kernels.images.empty()) {
    fmt::print("trek-skipped: this build has no device code (clang++-19 was not installed)\n");
    return kSkipped;
  }
  const Result<Device> device = Device::open(arguments.device);
  if (!device) {
    fmt::print("trek-skipped: {}\n", device.error().text());
    return kSkipped;
  }
  fmt::print("{}\n", device->name());
  return compare_all(*device, arguments, argc, argv);
}

}  // namespace
}  // namespace trek::bits

int main(int argc, char** argv) { return trek::bits::run(argc, argv); }
