// Modules of device code, and kernels to launch.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "emulator/driver/fat_binary.h"
#include "emulator/driver/stream.h"

namespace trek::driver {

// How a kernel is spread over the device.
struct LaunchShape {
  std::array<unsigned, 3> grid = {1, 1, 1};     // blocks
  std::array<unsigned, 3> block = {1, 1, 1};    // threads
  unsigned shared_bytes = 0;                    // dynamic, a block
  std::array<unsigned, 3> cluster = {0, 0, 0};  // blocks; 0: no clusters. sm_90 and newer
  bool cooperative = false;   // all blocks resident at once, or the launch is refused
  bool programmatic = false;  // may start while the kernel before it ends. sm_90 and newer
};

class Kernel {
 public:
  const std::string& name() const { return name_; }
  int registers() const { return registers_; }        // a thread
  int local_bytes() const { return local_bytes_; }    // a thread: stack and spills
  int shared_bytes() const { return shared_bytes_; }  // static, a block
  int max_threads() const { return max_threads_; }    // a block
  // Allows launches with that much dynamic shared memory (beyond 48 KiB it must be asked for).
  Status allow_shared_bytes(unsigned bytes) const;
  // How many blocks of this shape fit on one multiprocessor at once.
  Result<int> resident_blocks(unsigned threads, unsigned shared_bytes) const;

  // Enqueues a launch; the arguments are the kernel's parameters, in order and of exactly their types.
  template <class... Arguments>
  Status launch(const Stream& stream, const LaunchShape& shape, Arguments... arguments) const {
    std::array<void*, sizeof...(Arguments) + 1> pointers = {static_cast<void*>(&arguments)...,
                                                            nullptr};
    return launch_with(stream, shape, pointers.data());
  }

 private:
  friend class Module;
  Status launch_with(const Stream& stream, const LaunchShape& shape, void** arguments) const;

  std::shared_ptr<const CudaApi> api_;
  CuFunction handle_ = nullptr;
  std::string name_;
  int device_ = 0;
  int registers_ = 0;
  int local_bytes_ = 0;
  int shared_bytes_ = 0;
  int max_threads_ = 0;
};

// Where a module's global variable lies.
struct Global {
  CuDevicePointer address = 0;
  uint64_t bytes = 0;
};

// Loaded device code. Its kernels and globals must not be used after it.
class Module {
 public:
  // `image` is PTX text or a cubin; `name` is what errors call it. PTX is compiled here, and the
  // compiler's log is part of the error.
  static Result<Module> load(const Context& context, std::string_view name, std::string_view image);
  // The best image of `binary` that this device and its driver take.
  static Result<Module> load(const Context& context, const FatBinary& binary);

  // Of a fat binary, the image that was loaded; else null.
  const Image* image() const { return image_; }
  Result<Kernel> kernel(const std::string& name) const;
  Result<Global> global(const std::string& name) const;

 private:
  Owned<CuModule, &CudaApi::module_unload> handle_;
  std::shared_ptr<const CudaApi> api_;
  std::string name_;
  const Image* image_ = nullptr;
};

// What the driver's compiler makes of PTX for the context's device: a cubin. `name` is what errors call it; the
// compiler's log is part of them.
Result<std::string> assemble(const Context& context, std::string_view name, std::string_view ptx);

}  // namespace trek::driver
