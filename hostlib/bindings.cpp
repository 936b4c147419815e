#include "hostlib/bindings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "hostlib/names.h"
#include "hostlib/tensor_file.h"
#include "isa/convert.h"

namespace trek {
namespace {

using isa::DType;
using isa::ErrorCode;
using isa::Module;
using isa::Role;

std::optional<uint64_t> parse_bool(std::string_view text) {
  if (text == "true" || text == "1") return 1;
  if (text == "false" || text == "0") return 0;
  return std::nullopt;
}

std::optional<uint64_t> parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x")) base = 16;
  if (text.starts_with("0b")) base = 2;
  if (base != 10) text.remove_prefix(2);
  uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), magnitude, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  constexpr uint64_t kLeast = uint64_t{1} << 63;
  if (magnitude > (negative ? kLeast : kLeast - 1)) return std::nullopt;
  return negative ? uint64_t{0} - magnitude : magnitude;
}

// Rounded once to the parameter's type: an f32 is read as f32, not by way of f64.
template <class Real>
std::optional<uint64_t> parse_real(std::string_view text, DType dtype) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Real value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::nullopt;
  if (error != std::errc()) return std::nullopt;
  return isa::double_to_bits(dtype, static_cast<double>(value));
}

std::optional<uint64_t> parse_value(DType dtype, std::string_view text) {
  switch (dtype) {
    case DType::boolean:
      return parse_bool(text);
    case DType::i64:
      return parse_integer(text);
    case DType::f32:
      return parse_real<float>(text, dtype);
    case DType::f64:
      return parse_real<double>(text, dtype);
    default:
      return std::nullopt;
  }
}

// Whether `main` finds data in a tensor that the host does not bind.
std::vector<bool> initialised(const Module& module) {
  std::vector<bool> result(module.tensors.size());
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = module.tensors[i].source != isa::DataSource::none;
  for (const isa::Instruction& instruction : module.init.code)
    for (const isa::Ref ref : module.results(instruction))
      if (ref.is(isa::RefKind::tensor)) result[ref.index()] = true;
  return result;
}

// A safetensors file that should hold a module's state.
struct StateFile {
  std::string path;
  std::vector<std::byte> bytes;
  std::vector<std::string> members;

  bool has(std::string_view name) const {
    return std::find(members.begin(), members.end(), name) != members.end();
  }
  isa::Problem problem(ErrorCode code, std::string_view what) const {
    return trek::problem(code, fmt::format("{}: {}", path, what));
  }
};

isa::Result<StateFile> open_state(const std::filesystem::path& path) {
  isa::Result<std::vector<std::byte>> bytes = read_file(path);
  if (!bytes) return bytes.take_problems();
  isa::Result<std::vector<std::string>> members = parse_safetensors_names(*bytes, path.string());
  if (!members) return members.take_problems();
  return StateFile{path.string(), bytes.take(), members.take()};
}

// The bytes of one state tensor, which must be there with exactly its type.
isa::Result<std::vector<std::byte>> state_bytes(const StateFile& file, const Module& module,
                                                uint32_t tensor) {
  const std::string& name = tensor_name(module, tensor);
  const isa::Type& type = tensor_type(module, tensor);
  if (!file.has(name))
    return file.problem(ErrorCode::UnknownName,
                        fmt::format("no tensor for the state {}", tensor_text(module, tensor)));
  isa::Result<DataArray> array = parse_safetensors(file.bytes, file.path, name);
  if (!array) return array.take_problems();
  const isa::Type found = isa::Type::tensor(array->dtype, array->shape);
  if (found == type) return std::move(array->bytes);
  return file.problem(
      found.dtype == type.dtype ? ErrorCode::DataShape : ErrorCode::DataType,
      fmt::format("tensor '{}' is {}, the state is {}", name, found.text(), type.text()));
}

}  // namespace

isa::Problems Bindings::bind_file(std::string_view name, std::string_view file) {
  const isa::Result<uint32_t> tensor = find_tensor(module_, name, {Role::input, Role::stream});
  if (!tensor) return tensor.problems();
  const std::string& bare = tensor_name(module_, *tensor);
  const isa::Type& type = tensor_type(module_, *tensor);
  const bool stream = module_.tensors[*tensor].role == Role::stream;
  isa::Result<DataArray> array =
      stream ? read_stream_file(file, bare, type) : read_tensor_file(file, bare, type);
  if (!array) {
    isa::Problems problems = array.take_problems();
    for (isa::Problem& found : problems)
      if (found.place.empty()) found.place = fmt::format("--input {}", name);
    return problems;
  }
  bind(*tensor, std::move(array->bytes));
  return {};
}

isa::Problems Bindings::bind(std::string_view name, std::span<const std::byte> bytes) {
  const isa::Result<uint32_t> tensor =
      find_tensor(module_, name, {Role::input, Role::state, Role::stream});
  if (!tensor) return tensor.problems();
  const auto wanted = static_cast<size_t>(tensor_type(module_, *tensor).bytes());
  const bool stream = module_.tensors[*tensor].role == Role::stream;
  const bool fits = stream ? wanted != 0 && bytes.size() % wanted == 0 : bytes.size() == wanted;
  if (!fits)
    return {problem(ErrorCode::DataShape,
                    fmt::format("{} takes {}{} bytes, not {}", tensor_text(module_, *tensor),
                                stream ? "a multiple of " : "", wanted, bytes.size()))};
  bind(*tensor, {bytes.begin(), bytes.end()});
  return {};
}

isa::Problems Bindings::set(std::string_view name, std::string_view value) {
  const isa::Result<uint32_t> param = find_param(module_, name);
  if (!param) return param.problems();
  const DType dtype = module_.params[*param].dtype;
  const std::optional<uint64_t> bits = parse_value(dtype, value);
  if (!bits)
    return {problem(ErrorCode::InvalidNumber,
                    fmt::format("'{}' is not a value of ${} {}", value,
                                module_.string(module_.params[*param].name), isa::name(dtype)))};
  set(*param, *bits);
  return {};
}

isa::Problems Bindings::load_state(const std::filesystem::path& path) {
  const isa::Result<StateFile> file = open_state(path);
  if (!file) return file.problems();
  isa::Problems problems;
  std::vector<std::string_view> states;
  for (uint32_t i = 0; i < module_.tensors.size(); ++i) {
    if (module_.tensors[i].role != Role::state) continue;
    states.push_back(tensor_name(module_, i));
    isa::Result<std::vector<std::byte>> bytes = state_bytes(*file, module_, i);
    if (bytes)
      bind(i, bytes.take());
    else
      append(problems, bytes.take_problems());
  }
  for (const std::string& member : file->members) {
    if (std::find(states.begin(), states.end(), member) != states.end()) continue;
    problems.push_back(file->problem(
        ErrorCode::UnknownName, fmt::format("tensor '{}' is not a state of the module", member)));
    const std::string near = isa::nearest(member, states);
    if (!near.empty()) problems.back().help = fmt::format("did you mean '@{}'?", near);
  }
  return problems;
}

isa::Problems Bindings::unbound() const {
  isa::Problems problems;
  const std::vector<bool> has_data = initialised(module_);
  for (uint32_t i = 0; i < module_.tensors.size(); ++i) {
    const Role role = module_.tensors[i].role;
    if ((role != Role::input && role != Role::stream) || has_data[i] || tensors_.contains(i))
      continue;
    const std::string& name = tensor_name(module_, i);
    problems.push_back(
        problem(ErrorCode::UndefinedValue,
                fmt::format("{} {} has no data", isa::name(role), tensor_text(module_, i)),
                fmt::format("give it a file: --input {}=FILE", name)));
  }
  return problems;
}

}  // namespace trek
