// Rows whose phases are, step for step, those of the layer norm or the softmax that networks write: a device that
// interprets has code of its own for these (../device/row_form.h).
#pragma once

#include <optional>

#include "emulator/plan/plan.h"

namespace trek::plan {

struct RowForm {
  enum class Kind : uint8_t { norm, softmax };
  Kind kind = Kind::norm;
  uint32_t x = 0;     // of Node::operands, as are the next
  uint32_t safe = 0;  // of a norm: what is added to the variance
  uint32_t scale = 0;
  uint32_t shift = 0;
  isa::DType type = isa::DType::f32;  // what elements are rounded to at the end
};

// Other rows of fewer elements in all a device that interprets has as several nodes: it is bound by instructions, not by
// passes over so few elements.
inline constexpr int64_t kInterpretedElements = 4096;

// The form of rows of n elements by their steps alone; the last ones give their elements.
std::optional<RowForm> row_form(const std::vector<Phase>& phases,
                                const std::vector<MicroStep>& last, int64_t n);
// The form of a row node, or of a product that makes the rows of its left operand, whose types fit too.
std::optional<RowForm> row_form(const Node& node);

}  // namespace trek::plan
