// How an instruction is written, worked out from its row: the lines at the top of its page.
#pragma once

#include <string>
#include <vector>

#include "isa/ops.h"

namespace trek::manual {

// One line per form: with tensors, in place, on scalars alone, as an initialiser. What may be left
// out stands in brackets, "…" where a value has no default.
std::vector<std::string> signatures(const isa::OpInfo& op);

bool has_inplace_form(const isa::OpInfo& op);   // `update! @x, %y`
bool is_always_inplace(const isa::OpInfo& op);  // `sgd! @w, %g`

}  // namespace trek::manual
