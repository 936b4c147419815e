// What executes launches: a GPU, or this computer's threads. A machine has memory of its own, memory that
// the host sees too, and at most one launch at a time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "emulator/device/describe.h"
#include "emulator/driver/cuda.h"
#include "emulator/plan/plan.h"
#include "emulator/resident/mailbox.h"
#include "emulator/resident/phases.h"
#include "isa/result.h"

namespace trek::resident {

class GpuCompiler;
class HostCompiler;
struct Image;

// What a machine made of an image, for its launches.
class MachineCode {
 public:
  virtual ~MachineCode() = default;
};

// For what something is compiled.
struct Compiling {
  bool beside_launches = false;  // a launch may run meanwhile
  const std::atomic<bool>* cancelled =
      nullptr;  // ends early, with a problem, once it is true; may be null
};

// Bytes of a machine, given back with the last copy of `owner`.
struct Memory {
  uint64_t address = 0;  // as a launch sees it
  uint64_t bytes = 0;
  std::span<std::byte> host;  // of memory that the host sees too
  std::shared_ptr<void> owner;
};

// Launches that a machine replays, one after the other.
class Recording {
 public:
  virtual ~Recording() = default;
};

class Machine {
 public:
  virtual ~Machine() = default;
  virtual std::string name() const = 0;
  // What executes its tasks, as far as their times depend on it: "jit sm_90a, compute capability 9.0".
  virtual std::string code() const = 0;
  virtual int processors() const = 0;          // that execute at the same time
  virtual uint32_t scratch_bytes() const = 0;  // of a processor, for units
  virtual driver::Result<uint64_t> free_memory() const = 0;

  // Memory of 256-byte alignment; its bytes are not defined. No bytes are no memory.
  virtual driver::Result<Memory> allocate(uint64_t bytes) const = 0;
  virtual driver::Result<Memory> allocate_shared(uint64_t bytes) const = 0;
  // Between launches, and done when they return.
  virtual driver::Status upload(uint64_t address, std::span<const std::byte> from) const = 0;
  virtual driver::Status download(uint64_t address, std::span<std::byte> to) const = 0;

  // Zeroes a range before what comes next: a launch, an upload or a download.
  virtual driver::Status zero(uint64_t address, uint64_t bytes) const = 0;

  // Whether it executes images as they are, and whether it compiles them: one of the two, or both.
  virtual bool interprets() const = 0;
  virtual bool compiles() const = 0;
  // What a machine that compiles makes of an image, which it may change to suit. On any thread. Notes what it took.
  virtual isa::Result<std::shared_ptr<const MachineCode>> compile(const plan::Plan& plan,
                                                                  Image& image, Phases& phases,
                                                                  const Compiling& how) const = 0;
  // What an image that is executed as it is is launched with; the image must outlive it.
  virtual driver::Result<std::shared_ptr<const MachineCode>> at_once(const plan::Plan& /*plan*/,
                                                                     const Image& /*image*/) const {
    return std::shared_ptr<const MachineCode>();
  }
  // What compile() gave, ready to be launched. Between launches.
  virtual driver::Result<std::shared_ptr<const MachineCode>> load(
      std::shared_ptr<const MachineCode> code, Phases& /*phases*/) const {
    return code;
  }
  // Starts a launch, which is over when is_done(), with what at_once() or load() gave.
  virtual driver::Status start(const Launch& launch,
                               std::shared_ptr<const MachineCode> code) const = 0;
  virtual driver::Result<bool> is_done() const = 0;
  // Launches that are to come after each other, as one thing to start, with what at_once() or load() gave.
  virtual driver::Result<std::shared_ptr<const Recording>> record(
      std::span<const Launch> launches, std::shared_ptr<const MachineCode> code) const = 0;
  // Starts a recording, or a copy within the machine's memory, behind those that were started before; is_done() when all
  // are.
  virtual driver::Status replay(std::shared_ptr<const Recording> recording) const = 0;
  virtual driver::Status copy(uint64_t to, uint64_t from, uint64_t bytes) const = 0;
  // Lets some time pass while a launch runs in which the host has had nothing to do for so long; ends with the launch
  // where it can.
  virtual void rest(std::chrono::nanoseconds idle) const;
  // While a launch runs: reads what it writes, and writes a word that it reads.
  virtual driver::Status peek(uint64_t address, std::span<std::byte> to) const = 0;
  virtual driver::Status poke(uint64_t address, uint64_t value) const = 0;

  // Whether a task of a product packs panels of its operands for itself.
  virtual bool packs_panels() const { return false; }
  // Whether its units copy tensors by maps (device::TensorMap), and such a map of a tensor that lies at an
  // address of this machine.
  virtual bool copies_tensors() const { return false; }
  // Whether its quick moves read and give words (device/word_moves.h).
  virtual bool has_words() const { return false; }
  // Whether it has a kernel for chains of small products (Image::for_chains).
  virtual bool has_chains() const { return false; }
  // Whether processors 2i and 2i + 1 reach each other's memory in what it compiles (plan::Device::has_pairs).
  virtual bool has_pairs() const { return false; }
  virtual driver::Result<std::array<std::byte, device::kTensorMapBytes>> tensor_map(
      uint64_t /*address*/, const device::TensorMap& /*map*/) const {
    return driver::Error{"describing a tensor", "", "this machine copies none"};
  }
};

// The best level of the kernel for a device that Trek supports, "level sm_90a, cubin for sm_90a", or why the
// resident emulator does not run on it.
driver::Result<std::string> gpu_level(const driver::DeviceInfo& device);
// Whether a device has the shared memory that the persistent kernel needs, or what is missing.
driver::Status fits_gpu(const driver::DeviceInfo& device);
// What a machine does with images.
enum class Executing : uint8_t {
  interprets,
  compiles,
  both,  // a program begins on what interprets, and moves to its code
};
// A GPU with the kernel loaded that interprets, if wanted; notes the phases `context` and `kernel`. What compiles needs
// a compiler, and then every image gets a kernel of its own.
driver::Result<std::shared_ptr<const Machine>> open_gpu(
    const driver::Cuda& cuda, int ordinal, Phases& phases,
    Executing executing = Executing::interprets,
    std::shared_ptr<const GpuCompiler> compiler = nullptr);
// A thread of this computer for each processor, and blocks of one thread: the same queues, units and
// mailbox without a GPU. device::execute() interprets tasks; what compiles needs a compiler.
std::shared_ptr<const Machine> open_host(int processors,
                                         Executing executing = Executing::interprets,
                                         std::shared_ptr<const HostCompiler> compiler = nullptr);

}  // namespace trek::resident
