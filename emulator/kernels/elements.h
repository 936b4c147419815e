// The loop around one row of isa/semantics/elements.def, for the three files that compile the rows for
// f32, for f64 and for integers.
#pragma once

#include "emulator/kernels/loops.h"
#include "isa/semantics/elements.h"

// IdLoop<T>::run: r = expression(x, y, z, p, q) over n elements. Operands that the instruction does not
// have are passed as x, and read by no expression.
#define TREK_ELEMENT_LOOP(Id, Result, ...)                                           \
  template <class T>                                                                 \
  struct Id##Loop {                                                                  \
    static void run(void* results, const void* xs, const void* ys, const void* zs,   \
                    const void* attributes, int64_t n) {                             \
      [[maybe_unused]] const T p = static_cast<const T*>(attributes)[0];             \
      [[maybe_unused]] const T q = static_cast<const T*>(attributes)[8 / sizeof(T)]; \
      TREK_VECTORISE                                                                 \
      for (int64_t i = 0; i < n; ++i) {                                              \
        [[maybe_unused]] const T x = static_cast<const T*>(xs)[i];                   \
        [[maybe_unused]] const T y = static_cast<const T*>(ys)[i];                   \
        [[maybe_unused]] const T z = static_cast<const T*>(zs)[i];                   \
        static_cast<Result*>(results)[i] = __VA_ARGS__;                              \
      }                                                                              \
    }                                                                                \
  };
