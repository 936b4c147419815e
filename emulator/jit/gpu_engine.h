// The JIT on an NVIDIA GPU: the persistent kernel of emulator/resident, made for one program.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "emulator/driver/cuda.h"
#include "emulator/engine.h"
#include "emulator/jit/jit_engine.h"
#include "emulator/resident/program.h"

namespace trek::jit {

// What the engine `jit` is to compile for: a GPU where there is one that it runs on, as $TREK_DEVICE says, else this
// computer. $TREK_JIT_TARGET says which: `host`, or a level of GPUs, `sm_90a` or `sm_80`.
struct GpuTarget {
  bool wanted = false;      // a GPU
  std::string why;          // one is asked for by name and cannot be had; else empty
  std::string description;  // of what is taken
  std::string level;
  std::optional<driver::Cuda> cuda;
  int ordinal = 0;
};
GpuTarget gpu_target();
// Whether $TREK_JIT_TARGET is a level of GPUs.
bool names_gpu_level();

inline std::string_view engine_name(resident::Executing executing,
                                    resident::Launching launching = resident::Launching::through) {
  if (launching == resident::Launching::in_steps) return "jit-graph";
  return executing == resident::Executing::both ? "auto" : "jit";
}
// On a target that is wanted and to be had: the engine that compiles, or the one that begins as the resident emulator.
std::unique_ptr<Engine> make_gpu_engine(
    const GpuTarget& target, resident::Executing executing, resident::Moving moving = {},
    resident::Launching launching = resident::Launching::through);

// A device of emulator/plan by its name, which need not be there, as the JIT links for it: for the level of GPUs that
// $TREK_JIT_TARGET names, else for its own.
plan::Device device_linked_for(std::string_view name);
// As print_code(), for such a device: ir, ptx, or sass, which needs ptxas and nvdisasm on the PATH.
isa::Result<std::string> print_gpu_code(
    const isa::Module& module, const LoadOptions& options, std::string_view device, Form form,
    const std::function<std::string(uint32_t function, uint32_t instruction)>& place);

}  // namespace trek::jit
