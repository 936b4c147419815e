// What engines do alike when a program is loaded and bound: the checks of what the host gives, where the
// first bytes of tensors come from, and the words for what is wrong. Where bytes go is an engine's own.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "emulator/engine.h"

namespace trek {

// Bytes that a process here may still use: free memory, or what is left of the control group's share.
uint64_t available_memory();

isa::Problem problem(isa::ErrorCode code, std::string message);

// What a tensor begins with.
struct FirstBytes {
  std::span<const std::byte> of_module;
  std::vector<std::byte> of_host;  // external data
  bool zero = false;               // it has no data: all bytes are 0

  std::span<const std::byte> bytes() const { return of_host.empty() ? of_module : of_host; }
};

// Of a tensor that is no stream. Fails where the host gives no external data, or of another size.
isa::Result<FirstBytes> first_bytes(const isa::Module& module, uint32_t tensor,
                                    const LoadOptions& options);

// Whether a host may bind `bytes` to a tensor: an input or state, of that size.
isa::Problems check_bind(const isa::Module& module, uint32_t tensor,
                         std::span<const std::byte> bytes);
// Whether a tensor is a stream.
isa::Problems check_bind_stream(const isa::Module& module, uint32_t tensor);

// That the initialisers did not end with `done`.
isa::Problem initialiser_problem(const isa::Module& module, const RunResult& result);

}  // namespace trek
