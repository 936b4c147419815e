#include "hostlib/names.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace trek {
namespace {

using isa::ErrorCode;
using isa::Module;
using isa::Role;

constexpr size_t kListedNames = 12;

std::string_view without_sigil(std::string_view name, char sigil) {
  if (name.starts_with(sigil)) name.remove_prefix(1);
  return name;
}

// "did you mean '@w1'?", or what there is where nothing is near.
std::string suggestion(std::string_view name, const std::vector<std::string_view>& candidates,
                       char sigil) {
  const std::string near = isa::nearest(name, candidates);
  if (!near.empty()) return fmt::format("did you mean '{}{}'?", sigil, near);
  if (candidates.empty()) return "the module has none";
  std::string help = "the module has ";
  for (size_t i = 0; i < candidates.size() && i < kListedNames; ++i)
    help += fmt::format("{}{}{}", i > 0 ? ", " : "", sigil, candidates[i]);
  if (candidates.size() > kListedNames)
    help += fmt::format(" and {} more", candidates.size() - kListedNames);
  return help;
}

// "input or stream".
std::string roles_text(std::initializer_list<Role> roles) {
  std::string text;
  for (const Role role : roles) text += (text.empty() ? "" : " or ") + std::string(isa::name(role));
  return text;
}

}  // namespace

const std::string& tensor_name(const Module& module, uint32_t tensor) {
  return module.string(module.tensors[tensor].name);
}

const isa::Type& tensor_type(const Module& module, uint32_t tensor) {
  return module.type(module.tensors[tensor].type);
}

std::string tensor_text(const Module& module, uint32_t tensor) {
  return fmt::format("@{} {}", tensor_name(module, tensor), tensor_type(module, tensor).text());
}

isa::Result<uint32_t> find_tensor(const Module& module, std::string_view name,
                                  std::initializer_list<Role> roles) {
  const std::string_view bare = without_sigil(name, '@');
  const auto has_role = [&](const isa::TensorDecl& decl) {
    return std::find(roles.begin(), roles.end(), decl.role) != roles.end();
  };
  std::vector<std::string_view> candidates;
  for (uint32_t i = 0; i < module.tensors.size(); ++i) {
    const isa::TensorDecl& decl = module.tensors[i];
    if (tensor_name(module, i) == bare) {
      if (has_role(decl)) return i;
      return problem(ErrorCode::OperandKind, fmt::format("'@{}' is of role {}, not {}", bare,
                                                         isa::name(decl.role), roles_text(roles)));
    }
    if (has_role(decl)) candidates.push_back(tensor_name(module, i));
  }
  return problem(ErrorCode::UnknownName,
                 fmt::format("no {} is named '@{}'", roles_text(roles), bare),
                 suggestion(bare, candidates, '@'));
}

isa::Result<uint32_t> find_param(const Module& module, std::string_view name) {
  const std::string_view bare = without_sigil(name, '$');
  std::vector<std::string_view> candidates;
  for (uint32_t i = 0; i < module.params.size(); ++i) {
    candidates.push_back(module.string(module.params[i].name));
    if (candidates.back() == bare) return i;
  }
  return problem(ErrorCode::UnknownName, fmt::format("no parameter is named '${}'", bare),
                 suggestion(bare, candidates, '$'));
}

void append(isa::Problems& problems, isa::Problems more) {
  std::move(more.begin(), more.end(), std::back_inserter(problems));
}

isa::Problem problem(ErrorCode code, std::string message, std::string help) {
  isa::Problem made;
  made.code = code;
  made.message = std::move(message);
  made.help = std::move(help);
  return made;
}

}  // namespace trek
