#include "emulator/loading.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>

namespace trek {
namespace {

using isa::ErrorCode;
using isa::Module;
using isa::Problems;
using isa::Role;

std::string name(const Module& module, uint32_t tensor) {
  return module.string(module.tensors[tensor].name);
}
const isa::Type& type(const Module& module, uint32_t tensor) {
  return module.type(module.tensors[tensor].type);
}

// The number in a file that holds one, or `otherwise` ("max", no such file).
uint64_t number_in(const char* path, uint64_t otherwise) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : otherwise;
}

}  // namespace

uint64_t available_memory() {
  uint64_t available = UINT64_MAX;
  std::ifstream info("/proc/meminfo");
  for (std::string key; info >> key;) {
    if (key == "MemAvailable:") {
      uint64_t kib = 0;
      if (info >> kib) available = kib * 1024;
      break;
    }
    info.ignore(256, '\n');
  }
  const uint64_t most = number_in("/sys/fs/cgroup/memory.max", UINT64_MAX);
  const uint64_t used = number_in("/sys/fs/cgroup/memory.current", 0);
  return std::min(available, most == UINT64_MAX ? most : most - std::min(most, used));
}

isa::Problem problem(ErrorCode code, std::string message) {
  isa::Problem made;
  made.code = code;
  made.message = std::move(message);
  return made;
}

isa::Result<FirstBytes> first_bytes(const Module& module, uint32_t tensor,
                                    const LoadOptions& options) {
  const isa::TensorDecl& decl = module.tensors[tensor];
  const auto bytes = static_cast<size_t>(type(module, tensor).bytes());
  FirstBytes first;
  switch (decl.source) {
    case isa::DataSource::none:
      first.zero = true;
      return first;
    case isa::DataSource::embedded:
      first.of_module = std::as_bytes(std::span(module.data)).subspan(decl.offset, bytes);
      return first;
    case isa::DataSource::external:
      break;
  }
  if (!options.external)
    return problem(
        ErrorCode::FileUnreadable,
        fmt::format("@{} has external data, and the host gives none", name(module, tensor)));
  isa::Result<std::vector<std::byte>> data = options.external(decl);
  if (!data) return data.take_problems();
  if (data->size() != bytes)
    return problem(
        ErrorCode::DataShape,
        fmt::format("@{} {} takes {} bytes, its external data has {}", name(module, tensor),
                    type(module, tensor).text(), bytes, data->size()));
  first.of_host = data.take();
  return first;
}

Problems check_bind(const Module& module, uint32_t tensor, std::span<const std::byte> bytes) {
  const Role role = module.tensors[tensor].role;
  if (role != Role::input && role != Role::state)
    return {problem(ErrorCode::NotWritable,
                    fmt::format("@{} is of role {}: inputs and states can be bound",
                                name(module, tensor), isa::name(role)))};
  const isa::Type& wanted = type(module, tensor);
  if (bytes.size() != static_cast<uint64_t>(wanted.bytes()))
    return {problem(ErrorCode::DataShape,
                    fmt::format("@{} {} takes {} bytes, found {}", name(module, tensor),
                                wanted.text(), wanted.bytes(), bytes.size()))};
  return {};
}

Problems check_bind_stream(const Module& module, uint32_t tensor) {
  const Role role = module.tensors[tensor].role;
  if (role == Role::stream) return {};
  return {problem(ErrorCode::NotReadable, fmt::format("@{} is of role {}, not a stream",
                                                      name(module, tensor), isa::name(role)))};
}

isa::Problem initialiser_problem(const Module& module, const RunResult& result) {
  const std::string& why = result.trap ? result.trap->detail : result.detail;
  const auto ref = module.results(module.init.code[result.place.instruction])[0];
  return problem(ErrorCode::ShapeLimit,
                 fmt::format("the initialiser of @{} fails: {}", name(module, ref.index()), why));
}

}  // namespace trek
