// A module as text that a person would have written.
//
// The text assembles to the module it came from, byte for byte in the core of the binary and, where the
// names of registers allow it, in the section of names. Names, comments, the order of items, named
// constants and the way a constant was spelt come from the debug sections and are believed only as far
// as they are checked: a name must be a name and free, a spelling must have the value that stands in
// the module. What fails is printed plainly.
#pragma once

#include <string>

#include "isa/module.h"

namespace trek {

struct PrintOptions {
  bool names = true;        // of registers; else %v0, $v1 ...
  bool source_form = true;  // named constants, order of items, comments, spellings
};

// The module must be one that isa::verify() accepts.
std::string print(const isa::Module& module, const PrintOptions& options = {});

}  // namespace trek
