// The vocabulary of the instruction table in words. Each function speaks about a kind of fact, never
// about one instruction.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "isa/ops.h"

namespace trek::manual {

// "floats (f64, f32, f16, bf16), bool"
std::string words(const isa::DTypeSet& set);

// The element type of an operand or a result: "T", "bool", "i64".
std::string_view words(isa::TypeRule rule);
std::string words(isa::ResultRule rule);
std::string_view words(isa::Form form);

// What may be written after the `=` of an attribute.
std::string words(const isa::AttributeInfo& attribute);
// The value that holds when the attribute is not written, or "".
std::string default_of(const isa::AttributeInfo& attribute);

// What a numerics class promises, and where its rule is.
std::string words(isa::Numerics numerics);

// "12 FLOP per element of `w`", or "".
std::string flops_in_words(const isa::OpInfo& op);
// "size(x) + 2 × size(w) bytes", or "".
std::string bytes_in_words(const isa::OpInfo& op);

// 4294967296 as "4 294 967 296", with narrow spaces that do not break.
std::string grouped(uint64_t number);

// Text for a cell of a Markdown table.
std::string cell(std::string_view text);

// Whether a type rule letter needs its explanation on the page.
bool mentions_u(const isa::OpInfo& op);
bool mentions_c(const isa::OpInfo& op);

}  // namespace trek::manual
