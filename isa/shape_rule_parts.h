// What the shape rules share: fetching shapes and attributes, and saying what is wrong. When a rule runs,
// the table's rules hold: operand counts, forms and element types, and the kind of every attribute.
#pragma once

#include <algorithm>

#include <fmt/format.h>

#include "isa/infer.h"
#include "isa/shape_rules.h"

namespace trek::isa::shape {

using Part = Fault::Part;

inline bool mismatch(InferContext& c, int operand, std::string message) {
  return c.fail(ErrorCode::ShapeMismatch, Part::operand, operand, std::move(message));
}

inline const Shape& shape_of(InferContext& c, int operand) {
  return c.operands[static_cast<size_t>(operand)].shape;
}

inline std::string_view operand_name(InferContext& c, int operand) {
  return c.op.operands[static_cast<size_t>(operand)].name;
}

// Both shapes and the rule, as every shape error shows them.
inline std::string both(InferContext& c, int first, int second, std::string_view rule) {
  return fmt::format("'{}' has shape {} and '{}' {}: {}", operand_name(c, first),
                     shape_of(c, first).text(), operand_name(c, second), shape_of(c, second).text(),
                     rule);
}

// An attribute axis, counted from the end where negative; nothing, with a fault, outside the rank.
inline std::optional<int> axis_in(InferContext& c, std::string_view attribute, int64_t axis,
                                  int rank) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  c.fail_attribute(ErrorCode::AxisRange, attribute,
                   fmt::format("axis {} is outside a tensor of rank {}", axis, rank));
  return std::nullopt;
}

inline bool list_has_rank(InferContext& c, std::string_view attribute, int rank) {
  const size_t size = c.list_size(attribute);
  if (size == static_cast<size_t>(rank)) return true;
  return c.fail_attribute(
      ErrorCode::InvalidAttribute, attribute,
      fmt::format("'{}' has {} entries for a tensor of rank {}", attribute, size, rank));
}

// The attribute as a shape: a rank and dimensions that the ISA allows.
inline std::optional<Shape> shape_attribute(InferContext& c, std::string_view attribute) {
  const std::vector<int64_t> dims = c.integers(attribute);
  if (dims.size() > kMaxRank) {
    c.fail_attribute(
        ErrorCode::ShapeLimit, attribute,
        fmt::format("'{}' has {} dimensions, more than {}", attribute, dims.size(), kMaxRank));
    return std::nullopt;
  }
  Shape shape{std::span<const int64_t>(dims)};
  if (!shape.checked_elements()) {
    c.fail_attribute(ErrorCode::ShapeLimit, attribute,
                     fmt::format("'{}' is {}: dimensions are at least 0 and elements at most {}",
                                 attribute, shape.text(), kMaxElements));
    return std::nullopt;
  }
  return shape;
}

inline bool give_all(InferContext& c, const Shape& shape) {
  for (size_t i = 0; i < c.op.results.size(); ++i)
    if (!c.give(shape)) return false;
  return true;
}

// Result type for instructions that scalars alone make scalar.
inline bool give_elementwise(InferContext& c, const Shape& shape) {
  const bool scalar =
      std::all_of(c.operands.begin(), c.operands.end(), [](const Type& t) { return t.scalar; });
  if (!scalar) return c.give(shape);
  const DType dtype = c.result_dtype(0);
  if (!is_scalar_type(dtype))
    return c.fail(ErrorCode::OperandType, Part::result, 0,
                  fmt::format("a scalar is of type i64, f32, f64 or bool, not {}", name(dtype)));
  c.results.push_back(Type::make_scalar(dtype));
  return true;
}

inline bool gather_shape(InferContext& c, Shape& out) {
  const Shape& x = shape_of(c, 0);
  const Shape& index = shape_of(c, 1);
  const auto axis = axis_in(c, "axis", c.integer("axis"), x.rank());
  if (!axis) return false;
  if (x.rank() - 1 + index.rank() > kMaxRank)
    return c.fail(ErrorCode::ShapeLimit, Part::operand, 1,
                  fmt::format("'x' has shape {} and 'index' {}: together more than {} dimensions",
                              x.text(), index.text(), kMaxRank));
  for (int i = 0; i < *axis; ++i) out.push_back(x[i]);
  for (int64_t dim : index) out.push_back(dim);
  for (int i = *axis + 1; i < x.rank(); ++i) out.push_back(x[i]);
  return true;
}

inline bool same_shape(InferContext& c, int first, int second) {
  if (shape_of(c, first) == shape_of(c, second)) return true;
  return mismatch(c, second, both(c, first, second, "they must be equal"));
}

inline bool all_same_shape(InferContext& c) {
  for (int i = 1; i < static_cast<int>(c.operands.size()); ++i)
    if (!same_shape(c, 0, i)) return false;
  return true;
}

// Rows and classes of z [..., C] against t [...].
inline bool check_classes(InferContext& c, int z, int t, Shape& rows) {
  const Shape& logits = shape_of(c, z);
  if (logits.rank() == 0)
    return mismatch(c, z,
                    "'z' has shape []: logits are [..., C], with a last axis for the classes");
  rows = Shape(logits.dims().first(static_cast<size_t>(logits.rank() - 1)));
  if (rows == shape_of(c, t)) return true;
  return mismatch(
      c, t,
      both(c, z, t,
           fmt::format("for logits [..., C] the classes are [...], here {}", rows.text())));
}

inline constexpr int kNoReduction = 2;

inline Shape loss_shape(InferContext& c, const Shape& rows) {
  return c.choice("reduction") == kNoReduction ? rows : Shape{};
}

}  // namespace trek::isa::shape
