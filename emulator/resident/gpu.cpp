// A GPU as a machine: the Driver API, and the persistent kernel.
#include <algorithm>
#include <atomic>
#include <bit>

#include <fmt/format.h>
#include <generated/resident.h>
#include <generated/resident_chains.h>

#include "emulator/driver/memory.h"
#include "emulator/driver/module.h"
#include "emulator/loading.h"
#include "emulator/plan/geometry.h"
#include "emulator/resident/gpu_compiler.h"
#include "emulator/resident/machine.h"
#include "emulator/resident/pipeline.h"

namespace trek::resident {
namespace {

using driver::Result;
using driver::Status;

constexpr uint32_t kSharedBytes = (sizeof(Shared) + 127) / 128 * 128 + device::kSharedBytes;

// What compile() makes of an image: a cubin or PTX.
struct CompiledKernel : public MachineCode {
  explicit CompiledKernel(CompiledCode code)
      : bytes(std::move(code.text)), in_pairs(code.in_pairs) {}
  std::string bytes;
  bool in_pairs;  // its blocks are clusters of two
};

// What a launch executes.
struct LoadedKernel : public MachineCode {
  driver::Module module;
  driver::Kernel kernel;
  bool in_pairs = false;
};

struct RecordedGraph : public Recording {
  driver::Graph graph;
  std::shared_ptr<const MachineCode> code;  // must outlive it
};

bool of_hopper(const LoadedKernel& kernel) {
  return static_cast<bool>(kernel.module.global("resident_copies_tensors"));
}

class Gpu : public Machine {
 public:
  // With the kernel for all images, or a compiler, or both.
  Gpu(driver::Context context, driver::Stream stream, driver::Stream side,
      std::shared_ptr<const LoadedKernel> kernel, std::shared_ptr<const GpuCompiler> compiler)
      : context_(std::move(context)),
        stream_(std::move(stream)),
        side_(std::move(side)),
        kernel_(std::move(kernel)),
        compiler_(std::move(compiler)),
        copies_tensors_(compiler_ != nullptr ? compiler_->copies_tensors(context_.device())
                                             : of_hopper(*kernel_)) {}

  std::string name() const override { return context_.device().name; }
  std::string code() const override {
    return fmt::format("{} {}, compute capability {}", compiles() ? "jit" : "resident",
                       copies_tensors_ ? "sm_90a" : "sm_80", context_.device().capability.text());
  }
  int processors() const override { return context_.device().multiprocessors; }
  uint32_t scratch_bytes() const override { return device::kSharedBytes; }
  Result<uint64_t> free_memory() const override;
  Result<Memory> allocate(uint64_t bytes) const override;
  Result<Memory> allocate_shared(uint64_t bytes) const override;
  Status upload(uint64_t address, std::span<const std::byte> from) const override;
  Status download(uint64_t address, std::span<std::byte> to) const override;
  Status zero(uint64_t address, uint64_t bytes) const override;
  bool interprets() const override { return kernel_ != nullptr; }
  bool compiles() const override { return compiler_ != nullptr; }
  isa::Result<std::shared_ptr<const MachineCode>> compile(const plan::Plan& plan, Image& image,
                                                          Phases& phases,
                                                          const Compiling& how) const override;
  Result<std::shared_ptr<const MachineCode>> load(std::shared_ptr<const MachineCode> code,
                                                  Phases& phases) const override;
  Status start(const Launch& launch, std::shared_ptr<const MachineCode> code) const override;
  Result<std::shared_ptr<const Recording>> record(
      std::span<const Launch> launches, std::shared_ptr<const MachineCode> code) const override;
  Status replay(std::shared_ptr<const Recording> recording) const override;
  Status copy(uint64_t to, uint64_t from, uint64_t bytes) const override;
  Result<bool> is_done() const override { return stream_.is_done(); }
  Status peek(uint64_t address, std::span<std::byte> to) const override;
  Status poke(uint64_t address, uint64_t value) const override;
  bool copies_tensors() const override { return copies_tensors_; }
  // The kernel that interprets has none, nor what takes over from it.
  bool has_words() const override { return copies_tensors_; }
  bool has_chains() const override { return copies_tensors_ && interprets(); }
  Result<std::shared_ptr<const MachineCode>> at_once(const plan::Plan& plan,
                                                     const Image& image) const override;
  bool has_pairs() const override {
    constexpr int kFewest = 4;  // one pair beside the control processor's
    return copies_tensors_ && !interprets() && processors() >= kFewest && processors() % 2 == 0;
  }
  Result<std::array<std::byte, device::kTensorMapBytes>> tensor_map(
      uint64_t address, const device::TensorMap& map) const override;

 private:
  const driver::CudaApi& api() const { return context_.api(); }
  // What a launch executes.
  const LoadedKernel& kernel_of(const MachineCode* code) const {
    return code == nullptr ? *kernel_ : static_cast<const LoadedKernel&>(*code);
  }
  driver::Context context_;
  driver::Stream stream_;
  driver::Stream side_;  // reaches a launch that is running
  std::shared_ptr<const LoadedKernel> kernel_;
  std::shared_ptr<const GpuCompiler> compiler_;
  mutable std::shared_ptr<const LoadedKernel> chains_;  // once there is something for it
  bool copies_tensors_;                                 // kernels are of sm_90a
  mutable std::atomic<bool> launched_ = false;
  mutable std::shared_ptr<const MachineCode> running_;  // must outlive its launch
};

// Of a kernel that is not there yet: bytes of a thread's stack that are kept free.
constexpr uint64_t kStackGuess = 1024;

// As many as it was compiled for.
unsigned threads_of(const LoadedKernel& loaded) {
  return static_cast<unsigned>(loaded.kernel.max_threads());
}

// A kernel of which a block, with all the shared memory that it needs, fits a multiprocessor.
template <typename LoadModule>
Result<std::shared_ptr<const LoadedKernel>> load_kernel(const driver::Context& context,
                                                        const LoadModule& load_module,
                                                        bool in_pairs = false) {
  auto loaded = std::make_shared<LoadedKernel>();
  loaded->in_pairs = in_pairs;
  auto module = load_module();
  if (!module) return module.error();
  loaded->module = module.take();
  auto kernel = loaded->module.kernel("resident");
  if (!kernel) return kernel.error();
  loaded->kernel = kernel.take();
  if (Status status = loaded->kernel.allow_shared_bytes(kSharedBytes); !status)
    return status.error();
  auto blocks = loaded->kernel.resident_blocks(threads_of(*loaded), kSharedBytes);
  if (!blocks) return blocks.error();
  if (*blocks >= 1) return std::shared_ptr<const LoadedKernel>(std::move(loaded));
  return driver::Error{
      "preparing the resident emulator", "",
      fmt::format("no block of it fits a multiprocessor of {}", context.device().name)};
}

Result<std::shared_ptr<const MachineCode>> Gpu::at_once(const plan::Plan& /*plan*/,
                                                        const Image& image) const {
  if (!image.for_chains) return std::shared_ptr<const MachineCode>();
  if (chains_ == nullptr) {
    if (Status status = context_.make_current(); !status) return status.error();
    auto loaded = load_kernel(
        context_, [&] { return driver::Module::load(context_, fat_binaries::resident_chains); });
    if (!loaded) return loaded.error();
    chains_ = loaded.take();
  }
  return std::shared_ptr<const MachineCode>(chains_);
}

Result<uint64_t> Gpu::free_memory() const {
  if (Status status = context_.make_current(); !status) return status.error();
  auto free = context_.free_memory();
  if (!free || launched_) return free;
  // The first launch takes the stacks of all threads that the device can hold.
  const driver::DeviceInfo& device = context_.device();
  const uint64_t stacks =
      (kernel_ == nullptr ? kStackGuess : static_cast<uint64_t>(kernel_->kernel.local_bytes())) *
      static_cast<uint64_t>(device.max_threads_per_multiprocessor) *
      static_cast<uint64_t>(device.multiprocessors);
  return *free - std::min(*free, stacks);
}

Result<Memory> Gpu::allocate(uint64_t bytes) const {
  if (Status status = context_.make_current(); !status) return status.error();
  auto buffer = driver::DeviceBuffer::allocate(context_, bytes);
  if (!buffer) return buffer.error();
  auto owner = std::make_shared<driver::DeviceBuffer>(buffer.take());
  return Memory{owner->address(), bytes, {}, owner};
}

Result<Memory> Gpu::allocate_shared(uint64_t bytes) const {
  if (Status status = context_.make_current(); !status) return status.error();
  auto buffer = driver::PinnedBuffer::allocate(context_, bytes);
  if (!buffer) return buffer.error();
  auto owner = std::make_shared<driver::PinnedBuffer>(buffer.take());
  return Memory{owner->device_address(), bytes, owner->bytes(), owner};
}

Status Gpu::upload(uint64_t address, std::span<const std::byte> from) const {
  if (from.empty()) return driver::Done{};
  if (Status status = context_.make_current(); !status) return status.error();
  Status status =
      api().check(api().memcpy_to_device(address, from.data(), from.size(), stream_.handle()),
                  fmt::format("copying {} bytes to {}", from.size(), name()));
  return status ? stream_.synchronize() : std::move(status);
}

Status Gpu::download(uint64_t address, std::span<std::byte> to) const {
  if (to.empty()) return driver::Done{};
  if (Status status = context_.make_current(); !status) return status.error();
  Status status = api().check(api().memcpy_to_host(to.data(), address, to.size(), stream_.handle()),
                              fmt::format("copying {} bytes from {}", to.size(), name()));
  return status ? stream_.synchronize() : std::move(status);
}

Status Gpu::peek(uint64_t address, std::span<std::byte> to) const {
  Status status = api().check(api().memcpy_to_host(to.data(), address, to.size(), side_.handle()),
                              fmt::format("looking at a launch on {}", name()));
  return status ? side_.synchronize() : std::move(status);
}

Status Gpu::poke(uint64_t address, uint64_t value) const {
  Status status = api().check(api().memcpy_to_device(address, &value, sizeof value, side_.handle()),
                              fmt::format("ending a launch on {}", name()));
  return status ? side_.synchronize() : std::move(status);
}

Result<std::array<std::byte, device::kTensorMapBytes>> Gpu::tensor_map(
    uint64_t address, const device::TensorMap& map) const {
  static_assert(sizeof(driver::CuTensorMap) == device::kTensorMapBytes);
  driver::CuTensorMap encoded{};
  std::array<uint64_t, 3> sizes{};
  std::array<uint64_t, 2> strides{};
  std::copy(map.sizes.begin(), map.sizes.end(), sizes.begin());
  std::copy(map.strides.begin(), map.strides.end(), strides.begin());
  const std::array<uint32_t, 3> ones = {1, 1, 1};
  const auto type = map.as_tf32                    ? driver::TensorMapType::tf32
                    : map.dtype == isa::DType::f32 ? driver::TensorMapType::f32
                    : map.dtype == isa::DType::f16 ? driver::TensorMapType::f16
                                                   : driver::TensorMapType::bf16;
  if (Status status =
          api().check(api().tensor_map_encode_tiled(
                          &encoded, type, 3, reinterpret_cast<void*>(address), sizes.data(),
                          strides.data(), map.box.data(), ones.data(), driver::kInterleaveNone,
                          map.swizzled ? driver::kSwizzle128 : driver::kSwizzleNone,
                          driver::kL2Promotion128, driver::kFillZeros),
                      fmt::format("describing a tensor of {} x {} x {} to {}", map.sizes[0],
                                  map.sizes[1], map.sizes[2], name()));
      !status)
    return status.error();
  return std::bit_cast<std::array<std::byte, device::kTensorMapBytes>>(encoded);
}

Status Gpu::zero(uint64_t address, uint64_t bytes) const {
  if (bytes == 0) return driver::Done{};
  if (Status status = context_.make_current(); !status) return status.error();
  return api().check(api().memset_bytes(address, 0, bytes, stream_.handle()),
                     fmt::format("zeroing {} bytes on {}", bytes, name()));
}

isa::Result<std::shared_ptr<const MachineCode>> Gpu::compile(const plan::Plan& plan, Image& image,
                                                             Phases& phases,
                                                             const Compiling& how) const {
  if (Status status = context_.make_current(); !status)
    return problem(isa::ErrorCode::ShapeLimit, "the engine jit: " + status.error().text());
  auto made = compiler_->compile(plan, image, context_, phases, how);
  if (!made) return made.take_problems();
  return std::shared_ptr<const MachineCode>(std::make_shared<CompiledKernel>(made.take()));
}

// Not while a launch runs: the driver may want to wait for it.
Result<std::shared_ptr<const MachineCode>> Gpu::load(std::shared_ptr<const MachineCode> code,
                                                     Phases& phases) const {
  if (Status status = context_.make_current(); !status) return status.error();
  const auto& made = static_cast<const CompiledKernel&>(*code);
  auto loaded = load_kernel(
      context_, [&] { return driver::Module::load(context_, "a program", made.bytes); },
      made.in_pairs);
  if (!loaded) return loaded.error();
  phases.end("kernel");
  return std::shared_ptr<const MachineCode>(loaded.take());
}

driver::LaunchShape shape_of(const Launch& launch, const LoadedKernel& loaded) {
  driver::LaunchShape shape;
  shape.grid = {launch.processors, 1, 1};
  shape.block = {threads_of(loaded), 1, 1};
  shape.shared_bytes = kSharedBytes;
  if (loaded.in_pairs) shape.cluster = {2, 1, 1};
  return shape;
}

Status Gpu::start(const Launch& launch, std::shared_ptr<const MachineCode> code) const {
  if (Status status = context_.make_current(); !status) return status.error();
  const LoadedKernel& loaded = kernel_of(code.get());
  driver::LaunchShape shape = shape_of(launch, loaded);
  shape.cooperative = true;  // all blocks at once, or not at all
  launched_ = true;
  running_ = code;
  return loaded.kernel.launch(stream_, shape, launch);
}

// A graph whose kernels may be brought to the multiprocessors while the one before ends.
Result<std::shared_ptr<const Recording>> Gpu::record(
    std::span<const Launch> launches, std::shared_ptr<const MachineCode> code) const {
  if (Status status = context_.make_current(); !status) return status.error();
  auto recording = std::make_shared<RecordedGraph>();
  auto graph = driver::Graph::capture(context_, stream_, [&]() -> Status {
    const LoadedKernel& loaded = kernel_of(code.get());
    for (const Launch& launch : launches) {
      driver::LaunchShape shape = shape_of(launch, loaded);
      shape.programmatic = copies_tensors_;  // sm_90
      if (Status status = loaded.kernel.launch(stream_, shape, launch); !status) return status;
    }
    return driver::Done{};
  });
  if (!graph) return graph.error();
  recording->graph = graph.take();
  recording->code = std::move(code);
  return std::shared_ptr<const Recording>(std::move(recording));
}

Status Gpu::replay(std::shared_ptr<const Recording> recording) const {
  if (Status status = context_.make_current(); !status) return status.error();
  launched_ = true;
  return static_cast<const RecordedGraph&>(*recording).graph.launch(stream_);
}

Status Gpu::copy(uint64_t to, uint64_t from, uint64_t bytes) const {
  return api().check(api().memcpy_on_device(to, from, bytes, stream_.handle()),
                     fmt::format("copying {} bytes on {}", bytes, name()));
}

}  // namespace

Status fits_gpu(const driver::DeviceInfo& device) {
  if (kSharedBytes > device.shared_bytes_per_block)
    return driver::Error{"", "",
                         fmt::format("a block of the resident emulator needs {} bytes of shared "
                                     "memory, {} has {}",
                                     kSharedBytes, device.name, device.shared_bytes_per_block)};
  return driver::Done{};
}

Result<std::string> gpu_level(const driver::DeviceInfo& device) {
  if (Status status = fits_gpu(device); !status) return status.error();
  auto images = fat_binaries::resident.images_for(device);
  if (!images) return images.error();
  return images->front()->text();
}

Result<std::shared_ptr<const Machine>> open_gpu(const driver::Cuda& cuda, int ordinal,
                                                Phases& phases, Executing executing,
                                                std::shared_ptr<const GpuCompiler> compiler) {
  auto context = driver::Context::open(cuda, ordinal);
  if (!context) return context.error();
  auto stream = driver::Stream::create(*context);
  if (!stream) return stream.error();
  auto side = driver::Stream::create(*context);
  if (!side) return side.error();
  phases.end("context");
  std::shared_ptr<const LoadedKernel> kernel;
  if (executing != Executing::compiles) {
    auto loaded = load_kernel(
        *context, [&] { return driver::Module::load(*context, fat_binaries::resident); });
    if (!loaded) return loaded.error();
    kernel = loaded.take();
    phases.end("kernel");
  }
  // One plan for both, so both are of one level.
  if (executing == Executing::both &&
      of_hopper(*kernel) != compiler->copies_tensors(context->device()))
    return driver::Error{"", "",
                         "the kernel that interprets and the code that is compiled are of "
                         "different levels ($TREK_GPU_LEVEL, $TREK_JIT_TARGET)"};
  return std::shared_ptr<const Machine>(std::make_shared<Gpu>(
      context.take(), stream.take(), side.take(), std::move(kernel), std::move(compiler)));
}

}  // namespace trek::resident
