// The verifier: whether a module satisfies every rule of the ISA.
//
// It trusts nothing but the C++ types: every index is checked, so that a module read from a hostile file
// can be verified, in time and memory proportional to its size. What it accepts, engines execute without
// checking again. All problems are collected, up to kMaxProblems. A problem's source range is known where
// the module has line information; its `place` names function and instruction in any case.
#pragma once

#include "isa/module.h"

namespace trek::isa {

inline constexpr size_t kMaxProblems = 100;

Problems verify(const Module& module);

// Whether a name is a letter or `_`, then letters, digits and `_`.
bool is_identifier(std::string_view name);

}  // namespace trek::isa
