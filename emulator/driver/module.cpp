#include "emulator/driver/module.h"

#include <fmt/format.h>

namespace trek::driver {
namespace {

constexpr size_t kLogBytes = 16384;

LaunchAttribute cluster_attribute(const std::array<unsigned, 3>& cluster) {
  LaunchAttribute attribute{};
  attribute.id = LaunchAttributeId::cluster_dimension;
  attribute.value.cluster = {cluster[0], cluster[1], cluster[2]};
  return attribute;
}

LaunchAttribute flag_attribute(LaunchAttributeId id) {
  LaunchAttribute attribute{};
  attribute.id = id;
  attribute.value.flag = 1;
  return attribute;
}

// Where the driver's compiler says what is wrong, as options of a call.
class CompilerLog {
 public:
  CompilerLog() = default;
  CompilerLog(const CompilerLog&) = delete;
  CompilerLog& operator=(const CompilerLog&) = delete;
  unsigned count() const { return static_cast<unsigned>(options_.size()); }
  JitOption* options() { return options_.data(); }
  void** values() { return values_.data(); }
  Error added_to(Error error) const {
    const std::string text(log_.c_str());  // the compiler wrote a C string
    const std::string words = text.substr(0, text.find_last_not_of("\n ") + 1);
    if (!words.empty()) error.detail += "\n" + words;
    return error;
  }

 private:
  std::string log_ = std::string(kLogBytes, '\0');
  std::array<JitOption, 2> options_ = {JitOption::error_log_buffer,
                                       JitOption::error_log_buffer_size};
  // The API takes numbers as pointers.
  std::array<void*, 2> values_ = {log_.data(), reinterpret_cast<void*>(kLogBytes - 1)};
};

}  // namespace

Result<Module> Module::load(const Context& context, std::string_view name, std::string_view image) {
  const CudaApi& api = context.api();
  const std::string text(image);  // PTX must end with a zero byte
  CompilerLog log;
  CuModule handle = nullptr;
  const CuResult result =
      api.module_load_data(&handle, text.data(), log.count(), log.options(), log.values());
  Status status = api.check(
      result, fmt::format("loading module {} on device {}", name, context.device().ordinal));
  if (!status) return log.added_to(status.error());
  Module module;
  module.handle_ = {context, handle};
  module.api_ = context.shared_api();
  module.name_ = name;
  return module;
}

Result<Module> Module::load(const Context& context, const FatBinary& binary) {
  const auto images = binary.images_for(context.device());
  if (!images) return images.error();
  // A driver older than the assembler refuses cubins; then it may still compile the PTX behind them.
  Result<Module> module = Error{};
  for (const Image* image : *images) {
    module = load(context, fmt::format("{} ({})", binary.name, image->text()), image->bytes());
    if (!module) continue;
    module->image_ = image;
    break;
  }
  return module;
}

Result<std::string> assemble(const Context& context, std::string_view name, std::string_view ptx) {
  const CudaApi& api = context.api();
  std::string text(ptx);  // PTX must end with a zero byte
  const std::string what(name);
  CompilerLog log;  // for as long as the linker lives
  Owned<CuLinkState, &CudaApi::link_destroy> linker;
  CuLinkState state = nullptr;
  CuResult result = api.link_create(log.count(), log.options(), log.values(), &state);
  void* cubin = nullptr;
  size_t bytes = 0;
  if (result == kCudaSuccess) {
    linker = {context, state};
    result = api.link_add_data(state, JitInput::ptx, text.data(), text.size() + 1, what.c_str(), 0,
                               nullptr, nullptr);
  }
  if (result == kCudaSuccess) result = api.link_complete(state, &cubin, &bytes);
  Status status =
      api.check(result, fmt::format("assembling {} for device {}", name, context.device().ordinal));
  if (!status) return log.added_to(status.error());
  return std::string(static_cast<const char*>(cubin),
                     bytes);  // the linker's own until it is destroyed
}

Result<Kernel> Module::kernel(const std::string& name) const {
  const CudaApi& api = *api_;
  Kernel kernel;
  kernel.api_ = api_;
  kernel.name_ = name;
  kernel.device_ = handle_.device();
  CuResult result = api.module_get_function(&kernel.handle_, handle_.get(), name.c_str());
  const auto read = [&](FunctionAttribute attribute) {
    int value = 0;
    if (result == kCudaSuccess) result = api.func_get_attribute(&value, attribute, kernel.handle_);
    return value;
  };
  kernel.registers_ = read(FunctionAttribute::registers);
  kernel.local_bytes_ = read(FunctionAttribute::local_size);
  kernel.shared_bytes_ = read(FunctionAttribute::shared_size);
  kernel.max_threads_ = read(FunctionAttribute::max_threads_per_block);
  Status status = api.check(result, fmt::format("finding kernel {} in module {}", name, name_));
  if (!status) return status.error();
  return kernel;
}

Result<Global> Module::global(const std::string& name) const {
  Global global;
  size_t bytes = 0;
  Status status =
      api_->check(api_->module_get_global(&global.address, &bytes, handle_.get(), name.c_str()),
                  fmt::format("finding variable {} in module {}", name, name_));
  if (!status) return status.error();
  global.bytes = bytes;
  return global;
}

Status Kernel::allow_shared_bytes(unsigned bytes) const {
  return api_->check(api_->func_set_attribute(handle_, FunctionAttribute::max_dynamic_shared_size,
                                              static_cast<int>(bytes)),
                     fmt::format("allowing kernel {} {} bytes of shared memory on device {}", name_,
                                 bytes, device_));
}

Result<int> Kernel::resident_blocks(unsigned threads, unsigned shared_bytes) const {
  int blocks = 0;
  Status status = api_->check(
      api_->max_active_blocks(&blocks, handle_, static_cast<int>(threads), shared_bytes),
      fmt::format("asking how many blocks of kernel {} fit on device {}", name_, device_));
  if (!status) return status.error();
  return blocks;
}

Status Kernel::launch_with(const Stream& stream, const LaunchShape& shape, void** arguments) const {
  std::array<LaunchAttribute, 3> attributes{};
  unsigned count = 0;
  if (shape.cluster[0] != 0) attributes[count++] = cluster_attribute(shape.cluster);
  if (shape.cooperative) attributes[count++] = flag_attribute(LaunchAttributeId::cooperative);
  if (shape.programmatic) {
    attributes[count++] = flag_attribute(LaunchAttributeId::programmatic_stream_serialization);
  }
  const LaunchConfig config = {{shape.grid[0], shape.grid[1], shape.grid[2]},
                               {shape.block[0], shape.block[1], shape.block[2]},
                               shape.shared_bytes,
                               stream.handle(),
                               attributes.data(),
                               count};
  const CuResult result = api_->launch_kernel(&config, handle_, arguments, nullptr);
  if (result == kCudaSuccess) return Done{};  // no text is made on the fast path
  return api_->check(
      result,
      fmt::format("launching kernel {} on device {} with {}x{}x{} blocks of {}x{}x{} threads "
                  "and {} bytes of shared memory",
                  name_, device_, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0],
                  shape.block[1], shape.block[2], shape.shared_bytes));
}

}  // namespace trek::driver
