#include "isa/module.h"

#include <algorithm>
#include <bit>

#include "isa/convert.h"

namespace trek::isa {

Function Function::returning() {
  Function function;
  function.code.push_back(Instruction{});
  return function;
}

std::string_view name(Role role) {
  switch (role) {
    case Role::input:
      return "input";
    case Role::output:
      return "output";
    case Role::state:
      return "state";
    case Role::data:
      return "data";
    case Role::stream:
      return "stream";
  }
  return "";
}

int64_t constant_integer(const Constant& constant) { return static_cast<int64_t>(constant.bits); }

double constant_real(const Constant& constant) {
  return bits_to_double(constant.dtype, constant.bits);
}

std::span<const Ref> Module::results(const Instruction& i) const {
  return {words.data() + i.first, i.results};
}

std::span<const Ref> Module::operands(const Instruction& i) const {
  return {words.data() + i.first + i.results, i.operands};
}

std::span<const Ref> Module::attributes(const Instruction& i) const {
  return {words.data() + i.first + i.results + i.operands, i.attributes};
}

std::span<const Ref> Module::list(Ref ref) const {
  return {lists.data() + ref.index() + 1, lists[ref.index()].bits};
}

Type Module::type_of(const Function& function, Ref ref) const {
  switch (ref.kind()) {
    case RefKind::tensor:
      return types[tensors[ref.index()].type];
    case RefKind::param:
      return Type::make_scalar(params[ref.index()].dtype);
    case RefKind::value:
      return types[function.values[ref.index()].type];
    case RefKind::constant:
      return Type::make_scalar(constants[ref.index()].dtype);
    default:
      return {};
  }
}

const Function* Module::find_function(std::string_view name) const {
  const auto found = std::find_if(functions.begin(), functions.end(),
                                  [&](const Function& f) { return strings[f.name] == name; });
  return found == functions.end() ? nullptr : &*found;
}

}  // namespace trek::isa
