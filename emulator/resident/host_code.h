// Code in the place of the units' interpreter: what a compiler made of the nodes of an image, for processors that
// are threads of this computer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "emulator/device/block.h"
#include "emulator/plan/plan.h"
#include "emulator/resident/encode.h"
#include "emulator/resident/machine.h"
#include "isa/result.h"

namespace trek::resident {

// Executes the tile [first, first + count) of a node, as device::execute() does with a block of one thread:
// `addresses` are the node's, in numbers of 256 bytes of the arena, `shared` is Block::shared and behind it
// HostCompiler::scratch_bytes(), `counters` Environment::counters, *fault is kNoFault before.
using TaskFunction = void (*)(std::byte* arena, const uint32_t* addresses, std::byte* shared,
                              uint64_t seed, const int64_t* counters, int64_t first, int64_t count,
                              device::Fault* fault);
struct NodeCode {
  TaskFunction function = nullptr;
  const uint32_t* addresses = nullptr;
};

class HostCode : public MachineCode {
 public:
  // Of a node with tasks that a unit executes; without a function the interpreter does.
  virtual NodeCode of(uint32_t node) const = 0;
};

class HostCompiler {
 public:
  virtual ~HostCompiler() = default;
  // What executes an image until it is compiled: there at once, of nodes with which the interpreter would take too long.
  // The image must outlive it.
  virtual std::shared_ptr<const HostCode> at_once(const plan::Plan& plan,
                                                  const Image& image) const = 0;
  // Memory of a processor that its code wants behind Block::shared.
  virtual uint64_t scratch_bytes() const = 0;
  // Fails with a problem that names the instruction of the node, or where it was cancelled.
  virtual isa::Result<std::shared_ptr<const HostCode>> compile(
      const plan::Plan& plan, const Image& image, const std::atomic<bool>* cancelled) const = 0;
};

}  // namespace trek::resident
