#include "hostlib/session.h"

#include <algorithm>
#include <utility>

#include "hostlib/external_data.h"
#include "hostlib/names.h"
#include "hostlib/tensor_file.h"

namespace trek {
namespace {

using isa::Role;

// Hands out the blocks of `bytes` one by one.
StreamSource blocks_of(std::vector<std::byte> bytes) {
  return [bytes = std::move(bytes), at = size_t{0}](std::span<std::byte> block) mutable {
    if (bytes.size() - at < block.size() || block.empty()) return false;
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), block.size(), block.begin());
    at += block.size();
    return true;
  };
}

}  // namespace

isa::Result<Session> Session::open(const ModuleFile& file, Engine& engine, const Bindings& bindings,
                                   LoadOptions options) {
  options.external = [&](const isa::TensorDecl& decl) -> isa::Result<std::vector<std::byte>> {
    const auto tensor = static_cast<uint32_t>(&decl - file.module.tensors.data());
    if (const auto bound = bindings.tensors().find(tensor); bound != bindings.tensors().end())
      return bound->second;
    return read_external(file.module, decl, file.path.parent_path());
  };
  isa::Result<std::unique_ptr<Program>> program = engine.load(file.module, options);
  if (!program) return program.take_problems();
  Session session(program.take());
  isa::Problems problems = session.bind(bindings);
  if (!problems.empty()) return problems;
  return session;
}

isa::Problems Session::bind(const Bindings& bindings) {
  isa::Problems problems;
  for (const auto& [tensor, bytes] : bindings.tensors())
    append(problems, module().tensors[tensor].role == Role::stream
                         ? program_->bind_stream(tensor, blocks_of(bytes))
                         : program_->bind(tensor, bytes));
  for (const auto& [param, bits] : bindings.params()) program_->set(param, bits);
  return problems;
}

isa::Problems Session::write(uint32_t tensor, std::string_view file) {
  return write_tensor_file(file, tensor_name(module(), tensor), tensor_type(module(), tensor),
                           read(tensor));
}

isa::Problems Session::save_state(const std::filesystem::path& file) {
  // read() is valid until the next call only, so each tensor is copied.
  std::vector<std::vector<std::byte>> copies;
  std::vector<NamedArray> arrays;
  for (uint32_t i = 0; i < module().tensors.size(); ++i) {
    if (module().tensors[i].role != Role::state) continue;
    const std::span<const std::byte> bytes = read(i);
    copies.emplace_back(bytes.begin(), bytes.end());
    const isa::Type& type = tensor_type(module(), i);
    arrays.push_back({tensor_name(module(), i), type.dtype, type.shape, copies.back()});
  }
  return write_safetensors(file, arrays);
}

std::vector<TensorDigest> Session::digests() {
  std::vector<TensorDigest> digests;
  for (uint32_t i = 0; i < module().tensors.size(); ++i) {
    const Role role = module().tensors[i].role;
    if (role == Role::output || role == Role::state)
      digests.push_back({i, digest(tensor_type(module(), i).dtype, read(i))});
  }
  return digests;
}

}  // namespace trek
