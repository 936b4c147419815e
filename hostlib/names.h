// A module's tensors and parameters by the names that a person types: with or without the sigil, and
// with a suggestion where nothing has that name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "isa/module.h"
#include "isa/result.h"

namespace trek {

// "@w f32[784,10]".
std::string tensor_text(const isa::Module& module, uint32_t tensor);
const isa::Type& tensor_type(const isa::Module& module, uint32_t tensor);
const std::string& tensor_name(const isa::Module& module, uint32_t tensor);

// The index of the tensor named `name` or `@name`, which must have one of `roles`; problems are
// unknown-name (with a suggestion among those roles) and operand-kind (another role).
isa::Result<uint32_t> find_tensor(const isa::Module& module, std::string_view name,
                                  std::initializer_list<isa::Role> roles);
// The index of the parameter named `name` or `$name`.
isa::Result<uint32_t> find_param(const isa::Module& module, std::string_view name);

// Appends the problems of `more`.
void append(isa::Problems& problems, isa::Problems more);
isa::Problem problem(isa::ErrorCode code, std::string message, std::string help = "");

}  // namespace trek
