// The driver layer on a GPU: what the stand-in of tests/unit/driver cannot show. Skipped, with the
// reason, where there is none.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "emulator/driver/cublas.h"
#include "emulator/driver/memory.h"
#include "emulator/driver/module.h"
#include "emulator/driver/nvrtc.h"
#include "emulator/driver/support.h"
#include "emulator/measure/gpu_clock.h"

namespace trek::driver {
namespace {

// PTX of three kernels: store a number, never end in time, and write where nothing is.
const char* const kPtx = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 word = 5;
.visible .entry store(.param .u64 to, .param .u32 value) {
  .reg .u64 %p; .reg .u32 %v;
  ld.param.u64 %p, [to]; ld.param.u32 %v, [value];
  st.global.u32 [%p], %v; ret;
}
.visible .entry increment(.param .u64 to) {
  .reg .u64 %p; .reg .u32 %v;
  ld.param.u64 %p, [to]; ld.global.u32 %v, [%p]; add.u32 %v, %v, 1;
  st.global.u32 [%p], %v; ret;
}
.visible .entry sleep(.param .u32 nanoseconds) {
  .reg .u32 %v;
  ld.param.u32 %v, [nanoseconds]; nanosleep.u32 %v; ret;
}
)";

template <class T>
T require(Result<T> result) {
  if (!result) FAIL(result.error().text());
  return result.take();
}

// The first usable device, or nothing after saying why.
std::optional<Context> device_or_skip() {
  const Result<Cuda> cuda = Cuda::load();
  if (!cuda) {
    std::printf("trek-skipped: %s\n", cuda.error().text().c_str());
    return std::nullopt;
  }
  Result<Context> context = Context::open(*cuda, 0);
  if (!context) {
    std::printf("trek-skipped: %s\n", context.error().text().c_str());
    return std::nullopt;
  }
  return context.take();
}

TEST_CASE("the device has plausible properties and is listed as usable") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const DeviceInfo& device = context->device();
  CHECK(device.capability >= kOldestCapability);
  CHECK(device.multiprocessors > 0);
  CHECK(device.memory_bytes > uint64_t{1} << 30);
  CHECK(device.l2_bytes > uint64_t{1} << 20);
  CHECK(device.clock_khz > 100000);
  CHECK(device.shared_bytes_per_block >= 98304);
  const GpuSupport support = describe_gpu_support();
  CHECK(support.available);
  REQUIRE_FALSE(support.lines.empty());
  std::printf("%s\n", support.lines[0].c_str());
}

TEST_CASE("bytes go to the device and come back, at offsets too") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const Stream stream = require(Stream::create(*context));
  std::vector<uint32_t> sent(1 << 20);
  std::iota(sent.begin(), sent.end(), 7u);
  const DeviceBuffer a = require(DeviceBuffer::allocate(*context, sent.size() * 4));
  const DeviceBuffer b = require(DeviceBuffer::allocate(*context, sent.size() * 4));
  require(a.upload(stream, std::as_bytes(std::span(sent))));
  require(b.fill(stream, std::byte{0xff}));
  require(b.copy_from(stream, a));
  std::vector<uint32_t> received(1000);
  require(b.download(stream, std::as_writable_bytes(std::span(received)), 20000));
  require(stream.synchronize());
  CHECK(received.front() == 5007);
  CHECK(received.back() == 5999 + 7);
}

TEST_CASE("freed memory is the device's again") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const uint64_t before = require(context->free_memory());
  for (int i = 0; i < 20; ++i) {
    require(DeviceBuffer::allocate(*context, uint64_t{1} << 30));
  }
  CHECK(require(context->free_memory()) + (uint64_t{1} << 28) > before);
}

TEST_CASE("more memory than the device has is refused with both numbers") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(*context, uint64_t{1} << 50);
  REQUIRE_FALSE(buffer);
  CHECK(buffer.error().name == "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(buffer.error().text().starts_with("allocating 1125899906842624 bytes on device 0, where "));
}

TEST_CASE("PTX loads, its kernel runs, its variable is found") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const Stream stream = require(Stream::create(*context));
  const Module module = require(Module::load(*context, "test.ptx", kPtx));
  const Kernel store = require(module.kernel("store"));
  CHECK(store.registers() > 0);
  CHECK(store.local_bytes() == 0);
  CHECK(require(store.resident_blocks(256, 0)) > 0);
  const Global word = require(module.global("word"));
  CHECK(word.bytes == 4);
  require(store.launch(stream, {}, word.address, 77u));
  const DeviceBuffer buffer = require(DeviceBuffer::allocate(*context, 4));
  require(store.launch(stream, {}, buffer.address(), 123u));
  uint32_t value = 0;
  require(buffer.download(stream, std::as_writable_bytes(std::span(&value, 1))));
  require(stream.synchronize());
  CHECK(value == 123);
}

TEST_CASE("broken PTX is refused with the compiler's words") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const Result<Module> module =
      Module::load(*context, "broken.ptx", ".version 8.0\n.target sm_80\n.entry f() { oops; }\n");
  REQUIRE_FALSE(module);
  CHECK(module.error().text().starts_with(
      "loading module broken.ptx on device 0: CUDA_ERROR_INVALID_PTX"));
  CHECK(module.error().detail.find("oops") != std::string::npos);
}

TEST_CASE("a missing kernel is refused by name") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const Module module = require(Module::load(*context, "test.ptx", kPtx));
  CHECK(module.kernel("nobody").error().text().starts_with(
      "finding kernel nobody in module test.ptx: CUDA_ERROR_NOT_FOUND"));
}

TEST_CASE("a launch that does not fit is refused with its shape") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const Stream stream = require(Stream::create(*context));
  const Module module = require(Module::load(*context, "test.ptx", kPtx));
  const Kernel sleep = require(module.kernel("sleep"));
  LaunchShape shape;
  shape.block = {2048, 1, 1};
  const Status status = sleep.launch(stream, shape, 1u);
  REQUIRE_FALSE(status);
  CHECK(status.error().doing.find("1x1x1 blocks of 2048x1x1 threads") != std::string::npos);
  // All blocks must be resident for a cooperative launch: this many cannot be.
  shape.block = {1024, 1, 1};
  shape.grid = {100000, 1, 1};
  shape.cooperative = true;
  CHECK(sleep.launch(stream, shape, 1u).error().name == "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE");
}

TEST_CASE("a graph repeats what was recorded, in its order") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const Stream stream = require(Stream::create(*context));
  const Module module = require(Module::load(*context, "test.ptx", kPtx));
  const Kernel increment = require(module.kernel("increment"));
  const DeviceBuffer buffer = require(DeviceBuffer::allocate(*context, 4));
  require(buffer.fill(stream, std::byte{0}));
  const Graph graph = require(Graph::capture(*context, stream, [&] {
    Status status = Done{};
    for (int i = 0; i < 10 && status; ++i) {
      status = increment.launch(stream, {}, buffer.address());
    }
    return status;
  }));
  CHECK(graph.nodes() == 10);
  require(graph.launch(stream));
  require(graph.launch(stream));
  uint32_t value = 0;
  require(buffer.download(stream, std::as_writable_bytes(std::span(&value, 1))));
  require(stream.synchronize());
  CHECK(value == 20);
}

TEST_CASE("the device writes into page-locked memory that the host reads") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const Stream stream = require(Stream::create(*context));
  const Module module = require(Module::load(*context, "test.ptx", kPtx));
  const Kernel store = require(module.kernel("store"));
  const PinnedBuffer mailbox = require(PinnedBuffer::allocate(*context, 64));
  std::memset(mailbox.bytes().data(), 0, 64);
  require(store.launch(stream, {}, mailbox.device_address(), 99u));
  require(stream.synchronize());
  uint32_t value = 0;
  std::memcpy(&value, mailbox.bytes().data(), 4);
  CHECK(value == 99);
}

TEST_CASE("events measure the time of what lies between them") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const Stream stream = require(Stream::create(*context));
  const Module module = require(Module::load(*context, "test.ptx", kPtx));
  const Kernel sleep = require(module.kernel("sleep"));
  const measure::GpuClock clock = require(measure::GpuClock::create(*context));
  const double one =
      require(clock.seconds(stream, [&] { return sleep.launch(stream, {}, 500000u); }));
  CHECK(one > 0.00001);
  CHECK(one < 0.1);
}

TEST_CASE("another thread uses a context after making it current, and objects may die there") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  std::optional<DeviceBuffer> buffer = require(DeviceBuffer::allocate(*context, 1024));
  bool filled = false;
  std::thread([&] {
    if (!context->make_current()) return;
    const Result<Stream> stream = Stream::create(*context);
    filled = stream && buffer->fill(*stream, std::byte{1}) && stream->synchronize();
    buffer.reset();
  }).join();
  CHECK(filled);
}

TEST_CASE("cuBLAS multiplies row-major matrices, plain and transposed") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const Stream stream = require(Stream::create(*context));
  const Result<Cublas> cublas = Cublas::create(*context, stream);
  if (!cublas) {
    std::printf("trek-skipped: %s\n", cublas.error().text().c_str());
    return;
  }
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};   // [2,3]
  const std::vector<float> b = {1, 0, 0, 1, 1, 1};   // [3,2]
  const std::vector<float> bt = {1, 0, 1, 0, 1, 1};  // the same as [2,3]
  const DeviceBuffer da = require(DeviceBuffer::allocate(*context, 24));
  const DeviceBuffer db = require(DeviceBuffer::allocate(*context, 24));
  const DeviceBuffer dc = require(DeviceBuffer::allocate(*context, 16));
  require(da.upload(stream, std::as_bytes(std::span(a))));
  for (const bool transposed : {false, true}) {
    require(db.upload(stream, std::as_bytes(std::span(transposed ? bt : b))));
    require(dc.fill(stream, std::byte{0xff}));
    require(cublas->gemm(GemmType::f32, {2, 2, 3, transposed}, da.address(), db.address(),
                         dc.address()));
    std::vector<float> c(4);
    require(dc.download(stream, std::as_writable_bytes(std::span(c))));
    require(stream.synchronize());
    CHECK(c == std::vector<float>{4, 5, 10, 11});
  }
  CHECK_FALSE(
      cublas->gemm(GemmType::f32, {-1, 2, 3, false}, da.address(), db.address(), dc.address()));
}

TEST_CASE("what NVRTC compiles runs on the device") {
  const std::optional<Context> context = device_or_skip();
  if (!context) return;
  const Result<Nvrtc> nvrtc = Nvrtc::load();
  if (!nvrtc) {
    std::printf("trek-skipped: %s\n", nvrtc.error().text().c_str());
    return;
  }
  const Version capability = context->device().capability;
  const NvrtcCode code = require(nvrtc->compile(
      "square.cu", "extern \"C\" __global__ void square(int* p) { *p *= *p; }",
      "sm_" + std::to_string(capability.major * 10 + capability.minor), NvrtcOutput::cubin));
  const Module module = require(Module::load(*context, "square.cubin", code.image));
  const Kernel square = require(module.kernel("square"));
  const Stream stream = require(Stream::create(*context));
  const DeviceBuffer buffer = require(DeviceBuffer::allocate(*context, 4));
  const int32_t twelve = 12;
  require(buffer.upload(stream, std::as_bytes(std::span(&twelve, 1))));
  require(square.launch(stream, {}, buffer.address()));
  int32_t value = 0;
  require(buffer.download(stream, std::as_writable_bytes(std::span(&value, 1))));
  require(stream.synchronize());
  CHECK(value == 144);
}

}  // namespace
}  // namespace trek::driver
