// The canonical form of a source: layout alone, every token and comment stays.
//
// Two blanks per open brace; one blank between tokens where one belongs; at most one blank line; comments
// at the ends of neighbouring lines in one column, and so the `=` of neighbouring lines that each define
// one register; the names of module tensors and params in one column. Formatting twice changes nothing.
#pragma once

#include <string>

#include "assembler/source.h"

namespace trek {

// Fails where the text has bytes that are no tokens, or braces that do not match.
isa::Result<std::string> format_source(const SourceManager& sources, uint32_t file);

}  // namespace trek
