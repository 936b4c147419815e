// Types in the text: `f32[784,256]`, `i64`.
#pragma once

#include "assembler/expression.h"

namespace trek::assembler {

struct ParsedType {
  isa::Type type;
  isa::SourceRange where;
  std::vector<std::string_view> spellings;  // of the dimensions, "" where not worth keeping
};

// The type at the next token; false, reported, if there is none or its shape is beyond the limits.
bool parse_type(Core& core, Expressions& expressions, ParsedType& parsed);

}  // namespace trek::assembler
