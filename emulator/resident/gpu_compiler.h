// A kernel made for one image in the place of the one that executes all: emulator/jit.
#pragma once

#include <string>

#include "emulator/driver/context.h"
#include "emulator/plan/plan.h"
#include "emulator/resident/encode.h"
#include "emulator/resident/machine.h"
#include "emulator/resident/phases.h"
#include "isa/result.h"

namespace trek::resident {

// A cubin or PTX with the kernel `resident`, which is launched as the one of resident.cu is.
struct CompiledCode {
  std::string text;
  bool in_pairs = false;  // in blocks that are clusters of two, and in no others
};

class GpuCompiler {
 public:
  virtual ~GpuCompiler() = default;
  // Whether its kernels copy tensors by maps on this device.
  virtual bool copies_tensors(const driver::DeviceInfo& device) const = 0;
  // Writes into the image's records what the kernel is to find in them: a task that a unit executes is of Kind::task where
  // it may trap, else of Kind::quick where its code executes it as often as it is told to, or Kind::thin; its weight is the
  // number of its code, and in the place of its descriptor there are its addresses. Fails with a problem that names the
  // instruction of a node, or where it was cancelled. The context is this thread's.
  virtual isa::Result<CompiledCode> compile(const plan::Plan& plan, Image& image,
                                            const driver::Context& context, Phases& phases,
                                            const Compiling& how) const = 0;
};

}  // namespace trek::resident
