// Everything that the expressions of elements.def call: include this, then the table.
#pragma once

#include "isa/semantics/activation.h"
#include "isa/semantics/activation_gradient.h"
#include "isa/semantics/compare.h"
#include "isa/semantics/convert.h"
#include "isa/semantics/error_function.h"
#include "isa/semantics/exponential.h"
#include "isa/semantics/hyperbolic.h"
#include "isa/semantics/integer.h"
#include "isa/semantics/logarithm.h"
#include "isa/semantics/power.h"
#include "isa/semantics/remainder.h"
#include "isa/semantics/rounding.h"
#include "isa/semantics/target.h"
#include "isa/semantics/trigonometric.h"

namespace trek::semantics {

template <Float T>
TREK_FN T add(T x, T y) {
  return x + y;
}
template <Float T>
TREK_FN T sub(T x, T y) {
  return x - y;
}
template <Float T>
TREK_FN T mul(T x, T y) {
  return x * y;
}
template <Float T>
TREK_FN T div(T x, T y) {
  return x / y;
}

}  // namespace trek::semantics
