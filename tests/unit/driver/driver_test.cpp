// The driver layer against a stand-in for libcuda: what is found, what is refused, what errors say, and
// that every handle is given back once, before its context.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <dlfcn.h>

#include "emulator/driver/cublas.h"
#include "emulator/driver/memory.h"
#include "emulator/driver/module.h"
#include "emulator/driver/support.h"
#include "tests/unit/driver/fake_cuda.h"

namespace trek::driver {
namespace {

// The stand-in as $TREK_CUDA_LIBRARY, with fresh accounts.
class Fake {
 public:
  explicit Fake(const char* file = TREK_FAKE_CUDA) {
    setenv("TREK_CUDA_LIBRARY", file, 1);
    void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != nullptr);
    const auto find = reinterpret_cast<FakeCudaState>(dlsym(library, "fake_cuda_state"));
    REQUIRE(find != nullptr);
    state_ = find();
    *state_ = {};
  }
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;
  ~Fake() { unsetenv("TREK_CUDA_LIBRARY"); }
  fake::State* operator->() const { return state_; }

  // Everything was given back, each once, and the context last.
  void require_balanced() const {
    CHECK(state_->live.empty());
    CHECK(state_->contexts == 0);
    CHECK(state_->faults.empty());
  }

 private:
  fake::State* state_ = nullptr;
};

Context open_context() {
  const Result<Cuda> cuda = Cuda::load();
  REQUIRE(cuda);
  Result<Context> context = Context::open(*cuda, 0);
  REQUIRE(context);
  return context.take();
}

template <class T>
T require(Result<T> result) {
  if (!result) FAIL(result.error().text());
  return result.take();
}

TEST_CASE("a missing driver library is named with what the loader said") {
  setenv("TREK_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
  const Result<Cuda> cuda = Cuda::load();
  unsetenv("TREK_CUDA_LIBRARY");
  REQUIRE_FALSE(cuda);
  CHECK(cuda.error().text() ==
        "/nowhere/libcuda.so.1 not found: tried /nowhere/libcuda.so.1 (cannot open shared object "
        "file: No such file or directory)");
}

TEST_CASE("a driver library without a needed function is too old") {
  const Fake fake(TREK_FAKE_CUDA_OLD);
  const Result<Cuda> cuda = Cuda::load();
  REQUIRE_FALSE(cuda);
  CHECK(cuda.error().text().find("lacks the function cuLaunchKernelEx") != std::string::npos);
  CHECK(cuda.error().detail == "the NVIDIA driver is older than CUDA 12.0");
}

TEST_CASE("a driver for an older CUDA is refused by its version") {
  const Fake fake;
  fake->version = 11040;
  const Result<Cuda> cuda = Cuda::load();
  REQUIRE_FALSE(cuda);
  CHECK(cuda.error().text() ==
        "the NVIDIA driver supports CUDA 11.4: Trek needs a driver for 12.0 or newer");
}

TEST_CASE("a driver that cannot start says so in its own words") {
  const Fake fake;
  fake->failures["cuInit"] = 100;
  const GpuSupport support = describe_gpu_support();
  CHECK_FALSE(support.available);
  REQUIRE(support.lines.size() == 1);
  CHECK(support.lines[0].starts_with("initialising "));
  CHECK(support.lines[0].ends_with(": CUDA_ERROR_FAKE: as the test wanted"));
}

TEST_CASE("a machine with a driver and no GPU is described") {
  const Fake fake;
  fake->devices.clear();
  const GpuSupport support = describe_gpu_support();
  CHECK_FALSE(support.available);
  CHECK(support.lines == std::vector<std::string>{"the NVIDIA driver sees no GPU"});
}

TEST_CASE("usable and refused devices are described, the refused one with its reason") {
  const Fake fake;
  fake->devices = {{"Old Card", 7, 5}, {"New Card", 8, 0}};
  const GpuSupport support = describe_gpu_support();
  CHECK(support.available);
  REQUIRE(support.lines.size() == 2);
  CHECK(support.lines[0] ==
        "device 0: refused: Old Card has compute capability 7.5; Trek needs 8.0 (Ampere) or newer");
  CHECK(support.lines[1].starts_with("device 1: New Card, compute capability 8.0, 1000 multi"));
  CHECK(support.lines[1].ends_with("driver for CUDA 13.0"));
}

TEST_CASE("a device that an engine does not run on is refused in the engine's words") {
  const Fake fake;
  fake->devices = {{"New Card", 8, 0}, {"Newer Card", 9, 0}};
  const GpuSupport support = describe_gpu_support([](const DeviceInfo& device) {
    return device.capability.major == 9 ? Result<std::string>("level sm_90a")
                                        : Result<std::string>(Error{"", "", "too small"});
  });
  CHECK(support.available);
  REQUIRE(support.lines.size() == 2);
  CHECK(support.lines[0] == "device 0: refused: too small");
  CHECK(support.lines[1].ends_with("driver for CUDA 13.0, level sm_90a"));
}

TEST_CASE("only old devices make the GPU engines unavailable") {
  const Fake fake;
  fake->devices = {{"Old Card", 7, 5}};
  CHECK_FALSE(describe_gpu_support().available);
}

TEST_CASE("opening a refused or absent device fails and holds no context") {
  const Fake fake;
  fake->devices = {{"Old Card", 7, 5}};
  const Result<Cuda> cuda = Cuda::load();
  REQUIRE(cuda);
  const Result<Context> refused = Context::open(*cuda, 0);
  REQUIRE_FALSE(refused);
  CHECK(
      refused.error().text().starts_with("opening device 0: Old Card has compute capability 7.5"));
  const Result<Context> absent = Context::open(*cuda, 3);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().text() == "opening device 3: there are 1, counted from 0");
  CHECK(fake->contexts == 0);
}

TEST_CASE("the context outlives what lives in it, in any order of destruction") {
  const Fake fake;
  std::optional<Context> context = open_context();
  std::optional<Stream> stream = require(Stream::create(*context));
  std::optional<Event> event = require(Event::create(*context));
  std::optional<DeviceBuffer> buffer = require(DeviceBuffer::allocate(*context, 64));
  std::optional<PinnedBuffer> pinned = require(PinnedBuffer::allocate(*context, 64));
  std::optional<Module> module = require(Module::load(*context, "m", "ptx"));
  context.reset();
  CHECK(fake->contexts == 1);
  stream.reset();
  module.reset();
  buffer.reset();
  pinned.reset();
  CHECK(fake->contexts == 1);
  event.reset();
  fake.require_balanced();
  CHECK(fake->calls.back() == "cuDevicePrimaryCtxRelease_v2");
}

TEST_CASE("a moved buffer has one owner, and assignment gives the old one back") {
  const Fake fake;
  {
    const Context context = open_context();
    DeviceBuffer first = require(DeviceBuffer::allocate(context, 64));
    const CuDevicePointer address = first.address();
    DeviceBuffer second = std::move(first);
    CHECK(second.address() == address);
    // NOLINTBEGIN(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what is left is the point
    CHECK(first.address() == 0);
    CHECK(first.bytes() == 0);
    // NOLINTEND(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
    second = require(DeviceBuffer::allocate(context, 32));
    CHECK(fake->live.size() == 1);
    CHECK(second.bytes() == 32);
  }
  fake.require_balanced();
}

TEST_CASE("bytes come back from the device as they went") {
  const Fake fake;
  {
    const Context context = open_context();
    const Stream stream = require(Stream::create(context));
    const DeviceBuffer a = require(DeviceBuffer::allocate(context, 8));
    const DeviceBuffer b = require(DeviceBuffer::allocate(context, 8));
    const std::vector<std::byte> sent = {std::byte{1}, std::byte{2}, std::byte{3}};
    require(a.fill(stream, std::byte{9}));
    require(a.upload(stream, sent, 4));
    require(b.copy_from(stream, a));
    std::vector<std::byte> received(4);
    require(b.download(stream, received, 3));
    require(stream.synchronize());
    CHECK(received ==
          std::vector<std::byte>{std::byte{9}, std::byte{1}, std::byte{2}, std::byte{3}});
  }
  fake.require_balanced();
}

TEST_CASE("a buffer of no bytes is no allocation") {
  const Fake fake;
  {
    const Context context = open_context();
    const Stream stream = require(Stream::create(context));
    const DeviceBuffer none = require(DeviceBuffer::allocate(context, 0));
    CHECK(none.address() == 0);
    require(none.upload(stream, {}));
    require(none.fill(stream, std::byte{1}));
  }
  CHECK(std::count(fake->calls.begin(), fake->calls.end(), "cuMemAlloc_v2") == 0);
  fake.require_balanced();
}

TEST_CASE("out of memory says what was asked for and what is free") {
  const Fake fake;
  {
    const Context context = open_context();
    fake->failures["cuMemAlloc_v2"] = 2;
    const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(context, 4096);
    REQUIRE_FALSE(buffer);
    CHECK(buffer.error().text() ==
          "allocating 4096 bytes on device 0, where 1000 are free: CUDA_ERROR_FAKE: as the test "
          "wanted");
  }
  fake.require_balanced();
}

TEST_CASE("a module that does not load shows the compiler's log") {
  const Fake fake;
  {
    const Context context = open_context();
    fake->failures["cuModuleLoadDataEx"] = 218;
    fake->compiler_log = "ptxas fatal: no such thing\n";
    const Result<Module> module = Module::load(context, "resident.ptx", "text");
    REQUIRE_FALSE(module);
    CHECK(module.error().text() ==
          "loading module resident.ptx on device 0: CUDA_ERROR_FAKE: as the test wanted\n"
          "ptxas fatal: no such thing");
  }
  fake.require_balanced();
}

TEST_CASE("what is assembled outlives the linker, and what is not shows the compiler's log") {
  const Fake fake;
  {
    const Context context = open_context();
    CHECK(require(assemble(context, "a program", "text")) == "text");
    fake->failures["cuLinkComplete"] = 218;
    fake->compiler_log = "ptxas fatal: no such thing\n";
    const Result<std::string> cubin = assemble(context, "a program", "text");
    REQUIRE_FALSE(cubin);
    CHECK(cubin.error().text() ==
          "assembling a program for device 0: CUDA_ERROR_FAKE: as the test wanted\n"
          "ptxas fatal: no such thing");
  }
  fake.require_balanced();
}

TEST_CASE("a cubin that the driver refuses gives way to the PTX behind it") {
  const Fake fake;
  {
    const char cubin[] = "cubin";
    const char ptx[] = "ptx";
    const std::vector<Image> images = {{"sm_80", "sm_90", Image::cubin, cubin, cubin + 5},
                                       {"sm_80", "sm_80", Image::ptx, ptx, ptx + 3}};
    const FatBinary binary = {"kernels", images};
    const Context context = open_context();
    const Module module = require(Module::load(context, binary));
    CHECK(module.image() == images.data());
    fake->refused_image = "cubin";
    const Module compiled = require(Module::load(context, binary));
    CHECK(compiled.image() == &images[1]);
    fake->failures["cuModuleLoadDataEx"] = 218;
    CHECK(Module::load(context, binary)
              .error()
              .text()
              .starts_with("loading module kernels (level sm_80, PTX) on device 0: "));
  }
  fake.require_balanced();
}

TEST_CASE("a missing kernel and a missing variable are named with their module") {
  const Fake fake;
  const Context context = open_context();
  const Module module = require(Module::load(context, "m.ptx", "text"));
  fake->failures["cuModuleGetFunction"] = 500;
  fake->failures["cuModuleGetGlobal_v2"] = 500;
  CHECK(module.kernel("add").error().text().starts_with("finding kernel add in module m.ptx: "));
  CHECK(
      module.global("ring").error().text().starts_with("finding variable ring in module m.ptx: "));
}

TEST_CASE("a launch passes its shape, its attributes and its arguments") {
  const Fake fake;
  {
    const Context context = open_context();
    const Stream stream = require(Stream::create(context));
    const Module module = require(Module::load(context, "m", "text"));
    const Kernel kernel = require(module.kernel("store"));
    CHECK(kernel.registers() == 104);
    CHECK(kernel.local_bytes() == 103);
    CHECK(require(kernel.resident_blocks(256, 0)) == 2);
    unsigned target = 0;
    LaunchShape shape;
    shape.grid = {3, 2, 1};
    shape.block = {128, 1, 1};
    shape.shared_bytes = 512;
    shape.cluster = {2, 1, 1};
    shape.cooperative = true;
    shape.programmatic = true;
    require(kernel.launch(stream, shape, &target, 77u));
    CHECK(target == 77);
    CHECK(fake->last_launch == std::vector<unsigned>{3, 2, 1, 128, 1, 1, 512, 4, 2, 6});
    fake->failures["cuLaunchKernelEx"] = 1;
    const Status failed = kernel.launch(stream, shape, &target, 77u);
    REQUIRE_FALSE(failed);
    CHECK(
        failed.error().doing ==
        "launching kernel store on device 0 with 3x2x1 blocks of 128x1x1 threads and 512 bytes of "
        "shared memory");
  }
  fake.require_balanced();
}

TEST_CASE("a graph is recorded, launched and leaves nothing behind") {
  const Fake fake;
  {
    const Context context = open_context();
    const Stream stream = require(Stream::create(context));
    const Graph graph = require(Graph::capture(context, stream, [] { return Done{}; }));
    CHECK(graph.nodes() == 7);
    require(graph.launch(stream));
    CHECK(fake->calls.back() == "cuGraphLaunch");
  }
  fake.require_balanced();
}

TEST_CASE("a failure while recording a graph ends the recording and is the result") {
  const Fake fake;
  {
    const Context context = open_context();
    const Stream stream = require(Stream::create(context));
    const Result<Graph> graph = Graph::capture(
        context, stream, [] { return Status(Error{"enqueueing nothing", "", "on purpose"}); });
    REQUIRE_FALSE(graph);
    CHECK(graph.error().text() == "enqueueing nothing: on purpose");
    CHECK(std::count(fake->calls.begin(), fake->calls.end(), "cuStreamEndCapture") == 1);
  }
  fake.require_balanced();
}

TEST_CASE("a missing or foreign cuBLAS is named, and its workspace given back") {
  const Fake fake;
  {
    const Context context = open_context();
    const Stream stream = require(Stream::create(context));
    setenv("TREK_CUBLAS_LIBRARY", "/nowhere/libcublas.so", 1);
    CHECK(Cublas::create(context, stream)
              .error()
              .text()
              .starts_with(
                  "/nowhere/libcublas.so not found: tried /nowhere/libcublas.so (cannot open"));
    setenv("TREK_CUBLAS_LIBRARY", TREK_FAKE_CUDA, 1);
    CHECK(Cublas::create(context, stream).error().text() == TREK_FAKE_CUDA
          " is not a cuBLAS of CUDA 12 or newer");
    unsetenv("TREK_CUBLAS_LIBRARY");
  }
  fake.require_balanced();
}

TEST_CASE("events give seconds, and a fault of the device shows when it is waited for") {
  const Fake fake;
  const Context context = open_context();
  const Stream stream = require(Stream::create(context));
  const Event begin = require(Event::create(context));
  const Event end = require(Event::create(context));
  require(stream.record(begin));
  require(stream.record(end));
  require(end.synchronize());
  CHECK(require(end.seconds_since(begin)) == Approx(0.0025));
  fake->failures["cuStreamSynchronize"] = 700;
  CHECK(stream.synchronize().error().text() ==
        "waiting for work on device 0: CUDA_ERROR_FAKE: as the test wanted");
}

}  // namespace
}  // namespace trek::driver
