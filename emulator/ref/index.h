// Index operands: any integer type, checked against an axis, as i64.
#pragma once

#include "emulator/ref/step.h"

namespace trek::ref {

// The elements of an index operand as i64 in `out`. Traps at the lowest position whose index lies
// outside 0 <= index < size; `what` names what is indexed: "axis 0 of size".
Status read_indices(const Step& step, const Tensor& index, int64_t size, const std::string& what,
                    Buffer& out);

}  // namespace trek::ref
