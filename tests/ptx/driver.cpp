// libcuda.so.1 without a GPU: the functions of the CUDA Driver API that Trek calls, on a device whose kernels are
// interpreted. What a real driver checks and Trek may get wrong is checked here too.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include <malloc.h>

#include "emulator/driver/cuda_types.h"
#include "tests/ptx/machine.h"
#include "tests/ptx/read.h"
#include "tests/ptx/stream.h"
#include "tests/ptx/tensor_map.h"
#include "tests/ptx/text.h"

#define TREK_EXPORT extern "C" __attribute__((visibility("default"))) CuResult

namespace {

using namespace trek::driver;  // NOLINT(google-build-using-namespace)
namespace ptx = trek::ptx;

constexpr CuResult kInvalidValue = 1;
constexpr CuResult kOutOfMemory = 2;
constexpr CuResult kNoBinary = 209;
constexpr CuResult kInvalidPtx = 218;
constexpr CuResult kInvalidHandle = 400;
constexpr CuResult kNotFound = 500;
constexpr CuResult kTooManyResources = 701;
constexpr CuResult kCooperativeTooLarge = 720;

constexpr int kSharedPerBlock = 232448;
constexpr int kSharedPerProcessor = 233472;
constexpr int kThreadsPerProcessor = 2048;

// A setting of the interpreted device, by its variable.
uint64_t setting(const char* variable, uint64_t usual) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? usual : std::strtoull(text, nullptr, 10);
}
uint32_t processors() {
  static const auto kCount =
      static_cast<uint32_t>(std::clamp<uint64_t>(setting("TREK_PTX_PROCESSORS", 4), 1, 1024));
  return kCount;
}
// 90 or 80.
int capability() {
  static const auto kCapability = static_cast<int>(setting("TREK_PTX_CAPABILITY", 90));
  return kCapability;
}
uint64_t seed() {
  static const uint64_t kSeed = setting("TREK_PTX_SEED", 1);
  return kSeed;
}
ptx::DeviceMemory& memory() {
  static ptx::DeviceMemory kMemory(setting("TREK_PTX_MEMORY", uint64_t{8} << 30));
  return kMemory;
}
void* pointer(uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

struct FunctionHandle {
  const ptx::Module* module = nullptr;
  const ptx::Function* function = nullptr;
  uint32_t most_dynamic_shared = 49152;
};
struct ModuleHandle {
  std::unique_ptr<ptx::Module> module;
  std::map<std::string, FunctionHandle> functions;
};
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t given = 0;  // times
  uint64_t done = 0;
  std::chrono::steady_clock::time_point at;
};
// An event may be destroyed while a stream has still to come to it.
struct EventHandle {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};
struct LinkHandle {
  std::string text;
};
struct Graph {
  std::vector<ptx::Work> works;
};

template <typename To, typename From>
To* as(From* handle) {
  return reinterpret_cast<To*>(handle);
}

ptx::Stream& stream_of(CuStream stream) {
  static ptx::Stream kNull;
  return stream == nullptr ? kNull : *as<ptx::Stream>(stream);
}

CuResult sticky() { return ptx::failure().result(); }

bool holds(uint64_t address, size_t bytes) {
  return bytes == 0 || memory().find(address).holds(address, bytes);
}

// Tells what is wrong with a module's text where the caller asked to be told.
void tell(const std::string& what, unsigned count, const JitOption* options, void* const* values) {
  char* buffer = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == JitOption::error_log_buffer) buffer = static_cast<char*>(values[i]);
    if (options[i] == JitOption::error_log_buffer_size) size = reinterpret_cast<size_t>(values[i]);
  }
  if (buffer != nullptr && size > 0) std::snprintf(buffer, size, "%s", what.c_str());
}

bool is_ptx(const char* image) {
  image += std::strspn(image, " \t\n");
  return std::strncmp(image, "//", 2) == 0 || std::strncmp(image, ".version", 8) == 0;
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The PTX that a cubin was assembled from: in one of the folders of TREK_PTX_SOURCES, NAME.ptx beside
// NAME.TARGET.cubin. Empty where there is none.
std::string source_of(const char* cubin) {
  const char* folders = std::getenv("TREK_PTX_SOURCES");
  std::istringstream list(folders == nullptr ? "" : folders);
  constexpr size_t kElfHeader = 64;  // says how long the file is
  for (std::string folder; std::getline(list, folder, ':');) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      if (entry.path().extension() != ".cubin") continue;
      const std::string file = content_of(entry.path());
      if (file.size() < kElfHeader || std::memcmp(file.data(), cubin, kElfHeader) != 0 ||
          std::memcmp(file.data(), cubin, file.size()) != 0)
        continue;
      return content_of(entry.path().parent_path() /
                        (entry.path().stem().stem().string() + ".ptx"));
    }
  }
  return "";
}

// Whether this device runs code for a target: sm_90a on 9.0 alone, others on what is newer.
bool runs(std::string_view target) {
  const int made_for =
      std::atoi(std::string(target.substr(std::min<size_t>(3, target.size()))).c_str());
  return target.ends_with('a') ? made_for == capability() : made_for <= capability();
}

int occupancy(const FunctionHandle& function, int threads, size_t dynamic_shared) {
  const size_t shared = function.module->shared_bytes + dynamic_shared + ptx::kReservedShared;
  const int by_shared = static_cast<int>(kSharedPerProcessor / shared);
  return std::max(0, std::min({by_shared, kThreadsPerProcessor / std::max(threads, 1), 32}));
}

}  // namespace

TREK_EXPORT cuInit(unsigned /*flags*/) {
#ifdef __GLIBC__
  // What warps of a launch had is for those of the next, not given back to the system and taken anew page by page.
  mallopt(M_MMAP_THRESHOLD, 16 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
  return kCudaSuccess;
}
TREK_EXPORT cuDriverGetVersion(int* version) {
  *version = 12090;
  return kCudaSuccess;
}
TREK_EXPORT cuGetErrorName(CuResult result, const char** name) {
  static const std::map<CuResult, const char*> kNames = {
      {kCudaSuccess, "CUDA_SUCCESS"},
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kCudaErrorNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {kNoBinary, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {kInvalidPtx, "CUDA_ERROR_INVALID_PTX"},
      {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {kNotFound, "CUDA_ERROR_NOT_FOUND"},
      {kCudaErrorNotReady, "CUDA_ERROR_NOT_READY"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {kTooManyResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
      {719, "CUDA_ERROR_LAUNCH_FAILED"},
      {kCooperativeTooLarge, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"}};
  const auto found = kNames.find(result);
  *name = found == kNames.end() ? nullptr : found->second;
  return found == kNames.end() ? kInvalidValue : kCudaSuccess;
}
TREK_EXPORT cuGetErrorString(CuResult result, const char** words) {
  static thread_local std::string kWords;
  if (result == sticky()) kWords = ptx::failure().what();
  *words = result != kCudaSuccess && result == sticky() ? kWords.c_str() : nullptr;
  return *words == nullptr ? kInvalidValue : kCudaSuccess;
}

TREK_EXPORT cuDeviceGetCount(int* count) {
  *count = 1;
  return kCudaSuccess;
}
TREK_EXPORT cuDeviceGet(CuDevice* device, int ordinal) {
  *device = 0;
  return ordinal == 0 ? kCudaSuccess : kInvalidValue;
}
TREK_EXPORT cuDeviceGetName(char* name, int length, CuDevice /*device*/) {
  std::snprintf(name, static_cast<size_t>(length), "PTX interpreter");
  return kCudaSuccess;
}
TREK_EXPORT cuDeviceGetAttribute(int* value, DeviceAttribute attribute, CuDevice /*device*/) {
  switch (attribute) {
    case DeviceAttribute::clock_rate:
      *value = 1'980'000;
      break;
    case DeviceAttribute::multiprocessor_count:
      *value = static_cast<int>(processors());
      break;
    case DeviceAttribute::memory_clock_rate:
      *value = 3'201'000;
      break;
    case DeviceAttribute::memory_bus_width:
      *value = 6144;
      break;
    case DeviceAttribute::l2_cache_size:
      *value = 60 << 20;
      break;
    case DeviceAttribute::max_threads_per_multiprocessor:
      *value = kThreadsPerProcessor;
      break;
    case DeviceAttribute::compute_capability_major:
      *value = capability() / 10;
      break;
    case DeviceAttribute::compute_capability_minor:
      *value = capability() % 10;
      break;
    case DeviceAttribute::max_shared_per_multiprocessor:
      *value = kSharedPerProcessor;
      break;
    case DeviceAttribute::max_shared_per_block_optin:
      *value = kSharedPerBlock;
      break;
    default:
      return kInvalidValue;
  }
  return kCudaSuccess;
}
TREK_EXPORT cuDeviceTotalMem_v2(size_t* bytes, CuDevice /*device*/) {
  *bytes = memory().bytes();
  return kCudaSuccess;
}

TREK_EXPORT cuDevicePrimaryCtxRetain(CuContext* context, CuDevice /*device*/) {
  static int kContext = 0;
  *context = as<CuContextOpaque>(&kContext);
  return kCudaSuccess;
}
TREK_EXPORT cuDevicePrimaryCtxRelease_v2(CuDevice /*device*/) { return kCudaSuccess; }
TREK_EXPORT cuCtxSetCurrent(CuContext /*context*/) { return kCudaSuccess; }

// ---- streams and events ----------------------------------------------------------------------------

TREK_EXPORT cuStreamCreate(CuStream* stream, unsigned /*flags*/) {
  *stream = as<CuStreamOpaque>(new ptx::Stream);
  return kCudaSuccess;
}
TREK_EXPORT cuStreamDestroy_v2(CuStream stream) {
  delete as<ptx::Stream>(stream);
  return kCudaSuccess;
}
TREK_EXPORT cuStreamSynchronize(CuStream stream) {
  stream_of(stream).wait();
  return sticky();
}
TREK_EXPORT cuStreamQuery(CuStream stream) {
  if (!stream_of(stream).is_idle()) return kCudaErrorNotReady;
  return sticky();
}
TREK_EXPORT cuStreamWaitEvent(CuStream stream, CuEvent event, unsigned /*flags*/) {
  const auto of = as<EventHandle>(event)->state;
  uint64_t given = 0;
  {
    const std::lock_guard lock(of->mutex);
    given = of->given;
  }
  stream_of(stream).give([of, given] {
    std::unique_lock lock(of->mutex);
    while (of->done < given && sticky() == 0)
      of->changed.wait_for(lock, std::chrono::milliseconds(10));
  });
  return kCudaSuccess;
}

TREK_EXPORT cuEventCreate(CuEvent* event, unsigned /*flags*/) {
  *event = as<CuEventOpaque>(new EventHandle);
  return kCudaSuccess;
}
TREK_EXPORT cuEventDestroy_v2(CuEvent event) {
  delete as<EventHandle>(event);
  return kCudaSuccess;
}
TREK_EXPORT cuEventRecord(CuEvent event, CuStream stream) {
  const auto of = as<EventHandle>(event)->state;
  {
    const std::lock_guard lock(of->mutex);
    ++of->given;
  }
  stream_of(stream).give([of] {
    const std::lock_guard lock(of->mutex);
    ++of->done;
    of->at = std::chrono::steady_clock::now();
    of->changed.notify_all();
  });
  return kCudaSuccess;
}
TREK_EXPORT cuEventSynchronize(CuEvent event) {
  EventState& of = *as<EventHandle>(event)->state;
  std::unique_lock lock(of.mutex);
  while (of.done < of.given && sticky() == 0)
    of.changed.wait_for(lock, std::chrono::milliseconds(10));
  return sticky();
}
TREK_EXPORT cuEventElapsedTime(float* milliseconds, CuEvent begin, CuEvent end) {
  *milliseconds = std::chrono::duration<float, std::milli>(as<EventHandle>(end)->state->at -
                                                           as<EventHandle>(begin)->state->at)
                      .count();
  return sticky();
}

// ---- memory ----------------------------------------------------------------------------------------

TREK_EXPORT cuMemAlloc_v2(CuDevicePointer* address, size_t bytes) {
  if (bytes == 0) return kInvalidValue;
  *address = memory().allocate(bytes);
  return *address == 0 ? kOutOfMemory : kCudaSuccess;
}
TREK_EXPORT cuMemFree_v2(CuDevicePointer address) {
  ptx::Stream::wait_for_all();
  return address == 0 || memory().free(address) ? kCudaSuccess : kInvalidValue;
}
TREK_EXPORT cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = memory().free_bytes();
  *total = memory().bytes();
  return kCudaSuccess;
}
TREK_EXPORT cuMemHostAlloc(void** address, size_t bytes, unsigned /*flags*/) {
  *address = pointer(memory().allocate(std::max<size_t>(bytes, 1)));
  return *address == nullptr ? kOutOfMemory : kCudaSuccess;
}
TREK_EXPORT cuMemFreeHost(void* address) {
  ptx::Stream::wait_for_all();
  return memory().free(reinterpret_cast<uint64_t>(address)) ? kCudaSuccess : kInvalidValue;
}
TREK_EXPORT cuMemHostGetDevicePointer_v2(CuDevicePointer* device, void* host, unsigned /*flags*/) {
  *device = reinterpret_cast<CuDevicePointer>(host);
  return kCudaSuccess;
}
TREK_EXPORT cuMemcpyHtoDAsync_v2(CuDevicePointer to, const void* from, size_t bytes,
                                 CuStream stream) {
  if (!holds(to, bytes)) return kInvalidValue;
  // Memory that is not pinned has been read when the call returns.
  if (holds(reinterpret_cast<uint64_t>(from), bytes)) {
    stream_of(stream).give([to, from, bytes] { std::memcpy(pointer(to), from, bytes); });
  } else {
    std::vector<std::byte> kept(bytes);
    std::memcpy(kept.data(), from, bytes);
    stream_of(stream).give(
        [to, kept = std::move(kept)] { std::memcpy(pointer(to), kept.data(), kept.size()); });
  }
  return sticky();
}
TREK_EXPORT cuMemcpyDtoHAsync_v2(void* to, CuDevicePointer from, size_t bytes, CuStream stream) {
  if (!holds(from, bytes)) return kInvalidValue;
  ptx::Stream& on = stream_of(stream);
  on.give([to, from, bytes] { std::memcpy(to, pointer(from), bytes); });
  if (!on.is_recording() && !holds(reinterpret_cast<uint64_t>(to), bytes)) on.wait();
  return sticky();
}
TREK_EXPORT cuMemcpyDtoDAsync_v2(CuDevicePointer to, CuDevicePointer from, size_t bytes,
                                 CuStream stream) {
  if (!holds(to, bytes) || !holds(from, bytes)) return kInvalidValue;
  stream_of(stream).give([to, from, bytes] { std::memmove(pointer(to), pointer(from), bytes); });
  return sticky();
}
TREK_EXPORT cuMemsetD8Async(CuDevicePointer to, unsigned char value, size_t count,
                            CuStream stream) {
  if (!holds(to, count)) return kInvalidValue;
  stream_of(stream).give([to, value, count] { std::memset(pointer(to), value, count); });
  return sticky();
}
TREK_EXPORT cuMemsetD32Async(CuDevicePointer to, unsigned value, size_t count, CuStream stream) {
  if (!holds(to, count * 4) || to % 4 != 0) return kInvalidValue;
  stream_of(stream).give(
      [to, value, count] { std::fill_n(static_cast<uint32_t*>(pointer(to)), count, value); });
  return sticky();
}

// ---- modules ---------------------------------------------------------------------------------------

TREK_EXPORT cuModuleLoadDataEx(CuModule* module, const void* image, unsigned count,
                               JitOption* options, void** values) {
  const char* text = static_cast<const char*>(image);
  const std::string source = is_ptx(text) ? text : source_of(text);
  if (source.empty()) {
    tell("only PTX is interpreted, and TREK_PTX_SOURCES has none for this cubin", count, options,
         values);
    return kNoBinary;
  }
  try {
    const std::string_view all(source);
    const size_t target = all.find(".target ");
    if (target != std::string_view::npos) {
      const std::string_view name = all.substr(target + 8, 8);
      if (!runs(name.substr(0, name.find_first_of(", \n")))) return kNoBinary;
    }
    auto handle = std::make_unique<ModuleHandle>();
    handle->module = ptx::read_module(all, memory());
    *module = as<CuModuleOpaque>(handle.release());
    return kCudaSuccess;
  } catch (const ptx::TextError& error) {
    tell(error.what(), count, options, values);
    return kInvalidPtx;
  }
}
TREK_EXPORT cuModuleUnload(CuModule module) {
  ptx::Stream::wait_for_all();
  const std::unique_ptr<ModuleHandle> handle(as<ModuleHandle>(module));
  for (const auto& [name, variable] : handle->module->variables) memory().free(variable.address);
  return kCudaSuccess;
}
TREK_EXPORT cuModuleGetFunction(CuFunction* function, CuModule module, const char* name) {
  ModuleHandle& of = *as<ModuleHandle>(module);
  const ptx::Function* found = of.module->find(name);
  if (found == nullptr || !found->is_kernel) return kNotFound;
  FunctionHandle& handle = of.functions[name];
  handle.module = of.module.get();
  handle.function = found;
  *function = as<CuFunctionOpaque>(&handle);
  return kCudaSuccess;
}
TREK_EXPORT cuModuleGetGlobal_v2(CuDevicePointer* address, size_t* bytes, CuModule module,
                                 const char* name) {
  const auto& variables = as<ModuleHandle>(module)->module->variables;
  const auto found = variables.find(name);
  if (found == variables.end()) return kNotFound;
  if (address != nullptr) *address = found->second.address;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return kCudaSuccess;
}

TREK_EXPORT cuLinkCreate_v2(unsigned /*count*/, JitOption* /*options*/, void** /*values*/,
                            CuLinkState* state) {
  *state = as<CuLinkStateOpaque>(new LinkHandle);
  return kCudaSuccess;
}
TREK_EXPORT cuLinkAddData_v2(CuLinkState state, JitInput /*kind*/, void* data, size_t bytes,
                             const char* /*name*/, unsigned /*count*/, JitOption* /*options*/,
                             void** /*values*/) {
  as<LinkHandle>(state)->text.assign(static_cast<const char*>(data), bytes);
  return is_ptx(as<LinkHandle>(state)->text.c_str()) ? kCudaSuccess : kInvalidPtx;
}
TREK_EXPORT cuLinkComplete(CuLinkState state, void** cubin, size_t* bytes) {
  std::string& text = as<LinkHandle>(state)->text;
  *cubin = text.data();
  *bytes = text.size();
  return kCudaSuccess;
}
TREK_EXPORT cuLinkDestroy(CuLinkState state) {
  delete as<LinkHandle>(state);
  return kCudaSuccess;
}

// ---- kernels ---------------------------------------------------------------------------------------

TREK_EXPORT cuFuncGetAttribute(int* value, FunctionAttribute attribute, CuFunction function) {
  const FunctionHandle& of = *as<FunctionHandle>(function);
  switch (attribute) {
    case FunctionAttribute::max_threads_per_block:
      *value = static_cast<int>(of.function->most_threads);
      break;
    case FunctionAttribute::shared_size:
      *value = static_cast<int>(of.module->shared_bytes);
      break;
    case FunctionAttribute::local_size:
      *value = static_cast<int>(of.function->local_bytes);
      break;
    case FunctionAttribute::registers:
      *value = 255;
      break;
    case FunctionAttribute::max_dynamic_shared_size:
      *value = static_cast<int>(of.most_dynamic_shared);
      break;
    default:
      return kInvalidValue;
  }
  return kCudaSuccess;
}
TREK_EXPORT cuFuncSetAttribute(CuFunction function, FunctionAttribute attribute, int value) {
  FunctionHandle& of = *as<FunctionHandle>(function);
  if (attribute != FunctionAttribute::max_dynamic_shared_size) return kInvalidValue;
  if (value < 0 || static_cast<uint32_t>(value) + of.module->shared_bytes > kSharedPerBlock)
    return kInvalidValue;
  of.most_dynamic_shared = static_cast<uint32_t>(value);
  return kCudaSuccess;
}
TREK_EXPORT cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CuFunction function,
                                                        int threads, size_t shared_bytes) {
  *blocks = occupancy(*as<FunctionHandle>(function), threads, shared_bytes);
  return kCudaSuccess;
}

TREK_EXPORT cuLaunchKernelEx(const LaunchConfig* config, CuFunction function, void** arguments,
                             void** /*extra*/) {
  const FunctionHandle& of = *as<FunctionHandle>(function);
  ptx::LaunchShape shape;
  shape.grid = {config->grid[0], config->grid[1], config->grid[2]};
  shape.block = {config->block[0], config->block[1], config->block[2]};
  shape.dynamic_shared_bytes = config->shared_bytes;
  const uint32_t threads = shape.block.all();
  if (shape.grid.all() == 0 || threads == 0 || threads > of.function->most_threads)
    return kInvalidValue;
  if (config->shared_bytes > of.most_dynamic_shared) return kInvalidValue;
  const int fit = occupancy(of, static_cast<int>(threads), config->shared_bytes);
  if (fit == 0) return kTooManyResources;
  shape.resident_blocks = static_cast<uint32_t>(fit) * processors();
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    if (attribute.id == LaunchAttributeId::cooperative && attribute.value.flag != 0 &&
        shape.grid.all() > shape.resident_blocks)
      return kCooperativeTooLarge;
    if (attribute.id == LaunchAttributeId::cluster_dimension) {
      const auto& cluster = attribute.value.cluster;
      // Along x alone, and no more than any device has.
      if (cluster.x == 0 || cluster.x > 8 || cluster.y != 1 || cluster.z != 1 ||
          capability() < 90 || shape.grid.x % cluster.x != 0)
        return kInvalidValue;
      shape.cluster = cluster.x;
    }
  }
  shape.finds_races = setting("TREK_PTX_RACES", 0) != 0;
  if (const char* part = std::getenv("TREK_PTX_READS_AHEAD")) shape.reads_ahead = part;
  static std::atomic<uint64_t> kLaunches = 0;
  shape.seed = seed() * 1'000'003 + kLaunches++;
  std::vector<std::byte> parameters(of.function->parameter_bytes);
  for (size_t p = 0; p < of.function->parameters.size(); ++p)
    std::memcpy(parameters.data() + of.function->parameters[p].at, arguments[p],
                of.function->parameters[p].bytes);
  stream_of(config->stream).give([&of, shape, parameters = std::move(parameters)] {
    ptx::Grid grid(*of.module, *of.function, shape, parameters, memory());
    grid.run();
  });
  return sticky();
}

TREK_EXPORT cuTensorMapEncodeTiled(CuTensorMap* map, TensorMapType type, uint32_t rank,
                                   void* address, const uint64_t* sizes, const uint64_t* strides,
                                   const uint32_t* box, const uint32_t* element_strides,
                                   int interleave, int swizzle, int /*l2_promotion*/, int fill) {
  ptx::TensorMap encoded;
  encoded.mark = ptx::kTensorMapMark;
  encoded.address = reinterpret_cast<uint64_t>(address);
  encoded.element_bytes = type == TensorMapType::f32 || type == TensorMapType::tf32 ? 4 : 2;
  encoded.rounds_to_tf32 = type == TensorMapType::tf32 ? 1 : 0;
  encoded.swizzle = static_cast<uint32_t>(swizzle);
  encoded.axes = rank;
  if (rank == 0 || rank > ptx::kMostAxes || interleave != kInterleaveNone || fill != kFillZeros)
    return kInvalidValue;
  if (swizzle != kSwizzleNone && swizzle != kSwizzle128) return kInvalidValue;
  if (encoded.address % 16 != 0) return kInvalidValue;
  for (uint32_t axis = 0; axis < ptx::kMostAxes; ++axis) {
    encoded.sizes[axis] = axis < rank ? sizes[axis] : 1;
    encoded.box[axis] = axis < rank ? box[axis] : 1;
    encoded.strides[axis] = axis == 0 ? encoded.element_bytes : axis < rank ? strides[axis - 1] : 0;
    if (encoded.sizes[axis] == 0 || encoded.sizes[axis] > uint64_t{1} << 32) return kInvalidValue;
    if (encoded.box[axis] == 0 || encoded.box[axis] > 256) return kInvalidValue;
    if (axis > 0 && axis < rank &&
        (encoded.strides[axis] % 16 != 0 || encoded.strides[axis] >= uint64_t{1} << 40))
      return kInvalidValue;
    if (axis < rank && element_strides[axis] != 1) return kInvalidValue;
  }
  const uint32_t row = encoded.box[0] * encoded.element_bytes;
  if (row % 16 != 0 || (swizzle == kSwizzle128 && row > 128)) return kInvalidValue;
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &encoded, sizeof encoded);
  return kCudaSuccess;
}

// ---- graphs ----------------------------------------------------------------------------------------

TREK_EXPORT cuStreamBeginCapture_v2(CuStream stream, int /*mode*/) {
  if (stream == nullptr) return kInvalidValue;
  stream_of(stream).begin_recording();
  return kCudaSuccess;
}
TREK_EXPORT cuStreamEndCapture(CuStream stream, CuGraph* graph) {
  *graph = as<CuGraphOpaque>(new Graph{stream_of(stream).end_recording()});
  return kCudaSuccess;
}
TREK_EXPORT cuGraphDestroy(CuGraph graph) {
  delete as<Graph>(graph);
  return kCudaSuccess;
}
TREK_EXPORT cuGraphGetNodes(CuGraph graph, CuGraphNode* nodes, size_t* count) {
  if (nodes != nullptr) return kInvalidValue;  // their number is all that is asked for
  *count = as<Graph>(graph)->works.size();
  return kCudaSuccess;
}
TREK_EXPORT cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph graph,
                                        unsigned long long /*flags*/) {
  *exec = as<CuGraphExecOpaque>(new Graph(*as<Graph>(graph)));
  return kCudaSuccess;
}
TREK_EXPORT cuGraphExecDestroy(CuGraphExec exec) {
  delete as<Graph>(exec);
  return kCudaSuccess;
}
TREK_EXPORT cuGraphLaunch(CuGraphExec exec, CuStream stream) {
  for (const ptx::Work& work : as<Graph>(exec)->works) stream_of(stream).give(work);
  return sticky();
}
