// Bindings: what a host gives a module before it runs, gathered and checked before any engine is asked.
//
// Inputs and streams come from files or memory, parameters from text or bits, state from a safetensors
// file. Each call gives the problems it found and leaves earlier bindings alone, so a caller can collect
// all problems of a command line and report them at once. An input that is bound needs no default file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "isa/module.h"
#include "isa/result.h"

namespace trek {

class Bindings {
 public:
  explicit Bindings(const isa::Module& module) : module_(module) {}  // which must outlive this

  // An input, or a stream's blocks, from a file (hostlib/tensor_file.h).
  isa::Problems bind_file(std::string_view name, std::string_view file);
  // An input, a state or a stream's blocks from memory: little-endian elements, row-major.
  isa::Problems bind(std::string_view name, std::span<const std::byte> bytes);
  // A parameter from text: an integer (also 0x and 0b), a real, true or false.
  isa::Problems set(std::string_view name, std::string_view value);
  void set(uint32_t param, uint64_t bits) { params_[param] = bits; }
  void bind(uint32_t tensor, std::vector<std::byte> bytes) { tensors_[tensor] = std::move(bytes); }
  // Every state tensor from a safetensors file: names, types and shapes must be those of the module.
  isa::Problems load_state(const std::filesystem::path& path);

  // What stays without data: inputs with neither file nor initialiser, and streams.
  isa::Problems unbound() const;

  const std::map<uint32_t, std::vector<std::byte>>& tensors() const { return tensors_; }
  const std::map<uint32_t, uint64_t>& params() const { return params_; }

 private:
  const isa::Module& module_;
  std::map<uint32_t, std::vector<std::byte>> tensors_;
  std::map<uint32_t, uint64_t> params_;
};

}  // namespace trek
