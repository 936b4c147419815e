// The tables of a module: every entry is well-formed and refers to entries that exist.
#include <algorithm>
#include <cstring>
#include <span>
#include <unordered_set>

#include "isa/convert.h"
#include "isa/verifier_parts.h"

namespace trek::isa::verifier {
namespace {

constexpr std::string_view kFormats[] = {"npy", "idx", "raw", "safetensors"};

// Whether these are bits that a constant of its type has.
bool is_valid(const Constant& constant) {
  const int bits = 8 * byte_size(constant.dtype);
  if (is_real(constant.dtype)) {
    if (bits < 64 && constant.bits >> bits != 0) return false;
    const double value = bits_to_double(constant.dtype, constant.bits);
    return value == value || constant.bits == double_to_bits(constant.dtype, value);  // one NaN
  }
  return integer_to_bits(constant.dtype, static_cast<int64_t>(constant.bits),
                         kind(constant.dtype) == DTypeKind::uint)
      .has_value();
}

// Whether bytes are elements of a type: a bool is 0 or 1, of the others any bits are a number.
bool are_elements(std::span<const std::byte> bytes, DType dtype) {
  return dtype != DType::boolean ||
         std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b <= std::byte{1}; });
}

// The same of a test's binding; a scalar has, as constants do, one NaN.
bool is_valid(std::span<const std::byte> bytes, DType dtype, bool scalar) {
  if (!scalar) return are_elements(bytes, dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  return is_valid(Constant{dtype, bits});
}

class Tables {
 public:
  Tables(const Module& module, Report& report) : module_(module), report_(report) {}

  void check() {
    if (module_.strings.empty() || !module_.strings[0].empty())
      return report_.add(ErrorCode::BadEncoding, "strings", "string 0 is not the empty string");
    check_sizes();
    for (size_t i = 0; i < module_.types.size(); ++i) check_type(i);
    for (size_t i = 0; i < module_.constants.size(); ++i) check_constant(i);
    for (size_t i = 0; i < module_.externals.size(); ++i) check_external(i);
    if (!report_.empty()) return;
    for (size_t i = 0; i < module_.tensors.size(); ++i) check_tensor(i);
    names_.clear();
    for (size_t i = 0; i < module_.params.size(); ++i) check_param(i);
    names_.clear();
    for (size_t i = 0; i < module_.functions.size(); ++i) check_signature(i);
    check_entry();
    check_init_signature();
  }

 private:
  void bad(std::string place, std::string message) {
    report_.add(ErrorCode::BadEncoding, std::move(place), std::move(message));
  }
  bool is_string(uint32_t index) const { return index < module_.strings.size(); }
  bool is_type(uint32_t index) const { return index < module_.types.size(); }

  void check_sizes() {
    const size_t largest =
        std::max({module_.strings.size(), module_.types.size(), module_.constants.size(),
                  module_.lists.size(), module_.tensors.size(), module_.params.size(),
                  module_.functions.size()});
    if (largest > kMaxIndex || module_.words.size() > UINT32_MAX)
      bad("module", fmt::format("a table has more than {} entries", kMaxIndex));
  }

  void check_type(size_t i) {
    const Type& type = module_.types[i];
    const std::string place = fmt::format("type {}", i);
    if (kind(type.dtype) == DTypeKind::none) return bad(place, "no such element type");
    if (type.scalar && (!is_scalar_type(type.dtype) || type.shape.rank() != 0))
      return bad(place, fmt::format("a scalar is of type i64, f32, f64 or bool, found {}",
                                    name(type.dtype)));
    if (!type.shape.checked_elements())
      report_.add(ErrorCode::ShapeLimit, place,
                  fmt::format("{} has a negative dimension or more than {} elements", type.text(),
                              kMaxElements));
  }

  void check_constant(size_t i) {
    const Constant& constant = module_.constants[i];
    const std::string place = fmt::format("constant {}", i);
    if (kind(constant.dtype) == DTypeKind::none) return bad(place, "no such element type");
    if (!is_valid(constant))
      bad(place, fmt::format("{:#x} is no {}", constant.bits, name(constant.dtype)));
  }

  void check_external(size_t i) {
    const External& external = module_.externals[i];
    const std::string place = fmt::format("external {}", i);
    if (!is_string(external.format) || !is_string(external.path) || !is_string(external.member))
      return bad(place, "a string that does not exist");
    const std::string& format = module_.strings[external.format];
    if (std::find(std::begin(kFormats), std::end(kFormats), format) == std::end(kFormats))
      bad(place, fmt::format("'{}' is no format: {}", format, fmt::join(kFormats, ", ")));
    if (module_.strings[external.path].find('\0') != std::string::npos)
      bad(place, "a path with a zero byte");
  }

  void check_name(const std::string& place, uint32_t string) {
    if (!is_string(string)) return bad(place, "a string that does not exist");
    const std::string& text = module_.strings[string];
    if (!is_identifier(text)) return bad(place, "a name that is not letters, digits and '_'");
    if (!names_.insert(text).second)
      report_.add(ErrorCode::Redefined, place, fmt::format("'{}' is defined twice", text));
  }

  void check_tensor(size_t i) {
    const TensorDecl& decl = module_.tensors[i];
    const std::string place = is_string(decl.name)
                                  ? fmt::format("tensor @{}", module_.strings[decl.name])
                                  : fmt::format("tensor {}", i);
    check_name(place, decl.name);
    if (!is_type(decl.type) || module_.types[decl.type].scalar)
      return bad(place, "a type that is not a tensor's");
    if (name(decl.role).empty()) return bad(place, "no such role");
    const Type& type = module_.types[decl.type];
    switch (decl.source) {
      case DataSource::none:
        if (decl.offset != 0 || decl.external != 0) bad(place, "a source of data that is not used");
        break;
      case DataSource::embedded:
        if (decl.external != 0) bad(place, "a source of data that is not used");
        check_data(place, decl.offset, type);
        break;
      case DataSource::external:
        if (decl.offset != 0) bad(place, "a source of data that is not used");
        if (decl.external >= module_.externals.size())
          bad(place, "an external that does not exist");
        break;
      default:
        bad(place, "no such source of data");
    }
    if (decl.source != DataSource::none && (decl.role == Role::output || decl.role == Role::stream))
      bad(place, fmt::format("a tensor of role {} has no data of its own", name(decl.role)));
  }

  void check_data(const std::string& place, uint64_t offset, const Type& type) {
    const auto size = static_cast<uint64_t>(type.bytes());
    if (offset % kDataAlignment != 0)
      bad(place, fmt::format("data at {}, which is no multiple of {}", offset, kDataAlignment));
    if (offset > module_.data.size() || size > module_.data.size() - offset)
      bad(place, fmt::format("{} bytes at {} leave the data, which has {}", size, offset,
                             module_.data.size()));
    else if (!are_elements(std::span(module_.data).subspan(offset, size), type.dtype))
      bad(place, "a bool that is neither 0 nor 1");
  }

  void check_param(size_t i) {
    const Param& param = module_.params[i];
    const std::string place = is_string(param.name)
                                  ? fmt::format("param ${}", module_.strings[param.name])
                                  : fmt::format("param {}", i);
    check_name(place, param.name);
    if (!is_scalar_type(param.dtype) || param.dtype == DType::none)
      return bad(place, "a param is of type i64, f32, f64 or bool");
    if (param.value >= module_.constants.size() ||
        module_.constants[param.value].dtype != param.dtype)
      bad(place, fmt::format("a default that is no constant of type {}", name(param.dtype)));
  }

  void check_signature(size_t i) {
    const Function& function = module_.functions[i];
    const std::string place = is_string(function.name)
                                  ? fmt::format("function {}", module_.strings[function.name])
                                  : fmt::format("function {}", i);
    check_name(place, function.name);
    if (function.values.size() > kMaxIndex || function.code.size() > kMaxIndex)
      return bad(place, fmt::format("more than {} registers or instructions", kMaxIndex));
    if (function.parameters > function.values.size())
      return bad(place, "more parameters than registers");
    if (function.inplace.size() != function.parameters)
      return bad(place, "not one in-place flag per parameter");
    for (const Value& value : function.values)
      if (!is_type(value.type)) return bad(place, "a register of a type that does not exist");
    for (uint32_t type : function.results)
      if (!is_type(type)) return bad(place, "a result of a type that does not exist");
    for (uint32_t p = 0; p < function.parameters; ++p) {
      if (function.inplace[p] > 1) bad(place, "an in-place flag that is neither 0 nor 1");
      if (function.inplace[p] != 0 && module_.types[function.values[p].type].scalar)
        report_.add(ErrorCode::InPlace, place,
                    fmt::format("parameter {} is a scalar, which cannot be changed in place", p));
    }
  }

  void check_entry() {
    const Function* main = module_.find_function("main");
    if (main == nullptr)
      return report_.add(ErrorCode::NoEntry, "module",
                         "there is no function 'main', where execution begins");
    if (main->parameters != 0 || !main->results.empty())
      report_.add(ErrorCode::NoEntry, "function main",
                  "'main' takes no parameters and has no results; what it reads and writes are "
                  "module tensors");
  }

  void check_init_signature() {
    const Function& init = module_.init;
    if (init.name != 0 || init.parameters != 0 || !init.inplace.empty() || !init.results.empty() ||
        !init.values.empty())
      bad("initialisers", "they have no name, parameters, results or registers");
  }

  const Module& module_;
  Report& report_;
  std::unordered_set<std::string_view> names_;
};

}  // namespace

void check_tables(const Module& module, Report& report) { Tables(module, report).check(); }

void check_tests(const Module& module, Report& report) {
  for (const Test& test : module.tests) {
    if (report.full()) return;
    if (test.name >= module.strings.size())
      return report.add(ErrorCode::BadEncoding, "tests", "a name that does not exist");
    const std::string place = fmt::format("test \"{}\"", module.strings[test.name]);
    const auto check = [&](const TestBinding& binding, bool expected) {
      if (!in_range(module, Function{}, binding.target))
        return report.add(ErrorCode::BadEncoding, place, "a tensor or param that does not exist");
      uint64_t size = 0;
      DType dtype = DType::none;
      if (binding.target.is(RefKind::tensor)) {
        const TensorDecl& decl = module.tensors[binding.target.index()];
        dtype = module.types[decl.type].dtype;
        size = static_cast<uint64_t>(module.types[decl.type].bytes());
        const bool fits = expected ? decl.role != Role::stream
                                   : decl.role == Role::input || decl.role == Role::state ||
                                         decl.role == Role::stream;
        if (!fits)
          report.add(
              ErrorCode::NotWritable, place,
              fmt::format("@{} is of role {}, which a test cannot {}", module.strings[decl.name],
                          name(decl.role), expected ? "expect" : "give"));
      } else if (binding.target.is(RefKind::param) && !expected) {
        dtype = module.params[binding.target.index()].dtype;
        size = static_cast<uint64_t>(byte_size(dtype));
      } else {
        return report.add(ErrorCode::BadEncoding, place,
                          "a binding of something that is neither a tensor nor a param");
      }
      if (binding.offset % kDataAlignment != 0 || binding.offset > module.data.size() ||
          size > module.data.size() - binding.offset)
        report.add(ErrorCode::BadEncoding, place,
                   fmt::format("{} bytes at {} are not in the data, which has {}", size,
                               binding.offset, module.data.size()));
      else if (!is_valid(std::span(module.data).subspan(binding.offset, size), dtype,
                         binding.target.is(RefKind::param)))
        report.add(ErrorCode::BadEncoding, place, fmt::format("bytes that are no {}", name(dtype)));
    };
    // A stream may be given several times: each time its next block.
    std::unordered_set<uint32_t> taken;
    const auto check_once = [&](const TestBinding& binding) {
      const bool is_stream = binding.target.is(RefKind::tensor) &&
                             in_range(module, Function{}, binding.target) &&
                             module.tensors[binding.target.index()].role == Role::stream;
      if (!is_stream && !taken.insert(binding.target.bits).second)
        report.add(ErrorCode::Redefined, place, "a tensor or param is bound twice");
    };
    for (const TestBinding& binding : test.given) {
      check(binding, false);
      check_once(binding);
    }
    taken.clear();
    for (const TestBinding& binding : test.expected) {
      check(binding, true);
      check_once(binding);
    }
    if (name(test.trap) == "unknown") report.add(ErrorCode::BadEncoding, place, "no such trap");
    if (test.trap != TrapCode::None && !test.expected.empty())
      report.add(ErrorCode::Structure, place, "a test expects values or a trap, not both");
  }
}

}  // namespace trek::isa::verifier
