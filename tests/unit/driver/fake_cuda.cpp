#include "tests/unit/driver/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "emulator/driver/cuda_types.h"

using namespace trek::driver;

namespace {

trek::fake::State& state() {
  static trek::fake::State instance;
  return instance;
}

// Notes the call; the result that it was told to give.
CuResult called(const char* symbol) {
  state().calls.emplace_back(symbol);
  const auto failure = state().failures.find(symbol);
  return failure == state().failures.end() ? kCudaSuccess : failure->second;
}

template <class Handle>
CuResult give(const char* symbol, Handle* handle, size_t bytes = 1) {
  const CuResult result = called(symbol);
  if (result != kCudaSuccess) return result;
  void* memory = std::malloc(bytes);
  state().live.insert(memory);
  *handle = reinterpret_cast<Handle>(memory);
  return kCudaSuccess;
}

template <class Handle>
CuResult take_back(const char* symbol, Handle handle) {
  const CuResult result = called(symbol);
  void* memory = reinterpret_cast<void*>(handle);
  if (state().live.erase(memory) == 0) {
    state().faults.push_back(std::string(symbol) + " of a handle that is not live");
  } else {
    std::free(memory);
  }
  return result;
}

CuResult copy(const char* symbol, void* to, const void* from, size_t bytes) {
  const CuResult result = called(symbol);
  if (result == kCudaSuccess) std::memcpy(to, from, bytes);
  return result;
}

void* memory_at(CuDevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are the driver's
extern "C" {

trek::fake::State* fake_cuda_state() { return &state(); }

CuResult cuInit(unsigned) { return called("cuInit"); }
CuResult cuDriverGetVersion(int* version) {
  *version = state().version;
  return called("cuDriverGetVersion");
}
CuResult cuGetErrorName(CuResult, const char** name) {
  *name = "CUDA_ERROR_FAKE";
  return kCudaSuccess;
}
CuResult cuGetErrorString(CuResult, const char** words) {
  *words = "as the test wanted";
  return kCudaSuccess;
}
CuResult cuDeviceGetCount(int* count) {
  *count = static_cast<int>(state().devices.size());
  return called("cuDeviceGetCount");
}
CuResult cuDeviceGet(CuDevice* device, int ordinal) {
  *device = ordinal;
  return called("cuDeviceGet");
}
CuResult cuDeviceGetName(char* name, int length, CuDevice device) {
  std::strncpy(name, state().devices[static_cast<size_t>(device)].name.c_str(),
               static_cast<size_t>(length));
  return called("cuDeviceGetName");
}
CuResult cuDeviceGetAttribute(int* value, DeviceAttribute attribute, CuDevice device) {
  const trek::fake::Device& info = state().devices[static_cast<size_t>(device)];
  *value = attribute == DeviceAttribute::compute_capability_major   ? info.major
           : attribute == DeviceAttribute::compute_capability_minor ? info.minor
                                                                    : 1000;
  return called("cuDeviceGetAttribute");
}
CuResult cuDeviceTotalMem_v2(size_t* bytes, CuDevice) {
  *bytes = size_t{1} << 30;
  return called("cuDeviceTotalMem_v2");
}
CuResult cuDevicePrimaryCtxRetain(CuContext* context, CuDevice) {
  *context = reinterpret_cast<CuContext>(&state());
  ++state().contexts;
  return called("cuDevicePrimaryCtxRetain");
}
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice) {
  --state().contexts;
  if (!state().live.empty()) state().faults.emplace_back("context released before its handles");
  return called("cuDevicePrimaryCtxRelease_v2");
}
CuResult cuCtxSetCurrent(CuContext) { return called("cuCtxSetCurrent"); }

CuResult cuStreamCreate(CuStream* stream, unsigned) { return give("cuStreamCreate", stream); }
CuResult cuStreamDestroy_v2(CuStream stream) { return take_back("cuStreamDestroy_v2", stream); }
CuResult cuStreamSynchronize(CuStream) { return called("cuStreamSynchronize"); }
CuResult cuStreamQuery(CuStream) { return called("cuStreamQuery"); }
CuResult cuStreamWaitEvent(CuStream, CuEvent, unsigned) { return called("cuStreamWaitEvent"); }
CuResult cuEventCreate(CuEvent* event, unsigned) { return give("cuEventCreate", event); }
CuResult cuEventDestroy_v2(CuEvent event) { return take_back("cuEventDestroy_v2", event); }
CuResult cuEventRecord(CuEvent, CuStream) { return called("cuEventRecord"); }
CuResult cuEventSynchronize(CuEvent) { return called("cuEventSynchronize"); }
CuResult cuEventElapsedTime(float* milliseconds, CuEvent, CuEvent) {
  *milliseconds = 2.5f;
  return called("cuEventElapsedTime");
}

CuResult cuMemAlloc_v2(CuDevicePointer* pointer, size_t bytes) {
  return give("cuMemAlloc_v2", pointer, bytes);
}
CuResult cuMemFree_v2(CuDevicePointer pointer) { return take_back("cuMemFree_v2", pointer); }
CuResult cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = 1000;
  *total = 2000;
  return called("cuMemGetInfo_v2");
}
CuResult cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  return give("cuMemHostAlloc", pointer, bytes);
}
CuResult cuMemFreeHost(void* pointer) { return take_back("cuMemFreeHost", pointer); }
CuResult cuMemHostGetDevicePointer_v2(CuDevicePointer* device, void* host, unsigned) {
  *device = reinterpret_cast<CuDevicePointer>(host);
  return called("cuMemHostGetDevicePointer_v2");
}
CuResult cuMemcpyHtoDAsync_v2(CuDevicePointer to, const void* from, size_t bytes, CuStream) {
  return copy("cuMemcpyHtoDAsync_v2", memory_at(to), from, bytes);
}
CuResult cuMemcpyDtoHAsync_v2(void* to, CuDevicePointer from, size_t bytes, CuStream) {
  return copy("cuMemcpyDtoHAsync_v2", to, memory_at(from), bytes);
}
CuResult cuMemcpyDtoDAsync_v2(CuDevicePointer to, CuDevicePointer from, size_t bytes, CuStream) {
  return copy("cuMemcpyDtoDAsync_v2", memory_at(to), memory_at(from), bytes);
}
CuResult cuMemsetD8Async(CuDevicePointer to, unsigned char value, size_t count, CuStream) {
  std::memset(memory_at(to), value, count);
  return called("cuMemsetD8Async");
}
CuResult cuMemsetD32Async(CuDevicePointer to, unsigned value, size_t count, CuStream) {
  std::fill_n(static_cast<unsigned*>(memory_at(to)), count, value);
  return called("cuMemsetD32Async");
}

CuResult cuModuleLoadDataEx(CuModule* module, const void* image, unsigned count, JitOption* options,
                            void** values) {
  if (!state().refused_image.empty() && static_cast<const char*>(image) == state().refused_image)
    return 209;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == JitOption::error_log_buffer && !state().compiler_log.empty()) {
      std::strcpy(static_cast<char*>(values[i]), state().compiler_log.c_str());
    }
  }
  return give("cuModuleLoadDataEx", module);
}
CuResult cuLinkCreate_v2(unsigned count, JitOption* options, void** values, CuLinkState* linker) {
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == JitOption::error_log_buffer && !state().compiler_log.empty()) {
      std::strcpy(static_cast<char*>(values[i]), state().compiler_log.c_str());
    }
  }
  return give("cuLinkCreate_v2", linker);
}
CuResult cuLinkAddData_v2(CuLinkState, JitInput, void* data, size_t, const char*, unsigned,
                          JitOption*, void**) {
  state().linked = static_cast<const char*>(data);
  return called("cuLinkAddData_v2");
}
CuResult cuLinkComplete(CuLinkState, void** cubin, size_t* bytes) {
  *cubin = state().linked.data();
  *bytes = state().linked.size();
  return called("cuLinkComplete");
}
CuResult cuLinkDestroy(CuLinkState linker) { return take_back("cuLinkDestroy", linker); }
CuResult cuModuleUnload(CuModule module) { return take_back("cuModuleUnload", module); }
CuResult cuModuleGetFunction(CuFunction* function, CuModule module, const char*) {
  *function = reinterpret_cast<CuFunction>(module);
  return called("cuModuleGetFunction");
}
CuResult cuModuleGetGlobal_v2(CuDevicePointer* pointer, size_t* bytes, CuModule, const char*) {
  *pointer = 4096;
  *bytes = 16;
  return called("cuModuleGetGlobal_v2");
}
CuResult cuFuncGetAttribute(int* value, FunctionAttribute attribute, CuFunction) {
  *value = static_cast<int>(attribute) + 100;
  return called("cuFuncGetAttribute");
}
CuResult cuFuncSetAttribute(CuFunction, FunctionAttribute, int) {
  return called("cuFuncSetAttribute");
}
CuResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CuFunction, int, size_t) {
  *blocks = 2;
  return called("cuOccupancyMaxActiveBlocksPerMultiprocessor");
}
#ifndef FAKE_CUDA_WITHOUT_LAUNCH
CuResult cuLaunchKernelEx(const LaunchConfig* config, CuFunction, void** arguments, void**) {
  state().last_launch = {config->grid[0],  config->grid[1],  config->grid[2],     config->block[0],
                         config->block[1], config->block[2], config->shared_bytes};
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    state().last_launch.push_back(static_cast<unsigned>(config->attributes[i].id));
  }
  // A kernel of one pointer and one number: *pointer = number.
  **static_cast<unsigned**>(arguments[0]) = *static_cast<unsigned*>(arguments[1]);
  return called("cuLaunchKernelEx");
}
#endif

CuResult cuTensorMapEncodeTiled(CuTensorMap* map, TensorMapType, uint32_t, void*, const uint64_t*,
                                const uint64_t*, const uint32_t*, const uint32_t*, int, int, int,
                                int) {
  *map = {};
  return called("cuTensorMapEncodeTiled");
}

CuResult cuStreamBeginCapture_v2(CuStream, int) { return called("cuStreamBeginCapture_v2"); }
CuResult cuStreamEndCapture(CuStream, CuGraph* graph) { return give("cuStreamEndCapture", graph); }
CuResult cuGraphDestroy(CuGraph graph) { return take_back("cuGraphDestroy", graph); }
CuResult cuGraphGetNodes(CuGraph, CuGraphNode*, size_t* count) {
  *count = 7;
  return called("cuGraphGetNodes");
}
CuResult cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph, unsigned long long) {
  return give("cuGraphInstantiateWithFlags", exec);
}
CuResult cuGraphExecDestroy(CuGraphExec exec) { return take_back("cuGraphExecDestroy", exec); }
CuResult cuGraphLaunch(CuGraphExec, CuStream) { return called("cuGraphLaunch"); }

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
