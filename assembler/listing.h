// What a module's instructions became: for each its number, its record, the types of its results, and its
// place in the source. A module that came from a file has the file's records.
#pragma once

#include <string>

#include "isa/module.h"

namespace trek {

std::string list_module(const isa::Module& module);

}  // namespace trek
