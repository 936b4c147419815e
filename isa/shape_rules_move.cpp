// The shape rules of the move family.
#include <utility>

#include "isa/shape_rule_parts.h"

namespace trek::isa::shape {

bool infer_given(InferContext& c) {
  const auto shape = shape_attribute(c, "shape");
  return shape && c.give(*shape);
}

bool infer_iota(InferContext& c) {
  const auto shape = shape_attribute(c, "shape");
  if (!shape || !axis_in(c, "axis", c.integer("axis"), shape->rank())) return false;
  return c.give(*shape);
}

bool infer_reshape(InferContext& c) {
  const Shape& x = shape_of(c, 0);
  std::vector<int64_t> dims = c.integers("shape");
  const auto open = std::count(dims.begin(), dims.end(), -1);
  const auto wrong = [&](std::string_view why) {
    return c.fail_attribute(
        ErrorCode::ShapeMismatch, "shape",
        fmt::format("{} cannot be reshaped to [{}]: {}", x.text(), fmt::join(dims, ","), why));
  };
  if (dims.size() > kMaxRank)
    return wrong(fmt::format("a shape has at most {} dimensions", kMaxRank));
  if (open > 1) return wrong("at most one dimension may be -1");
  Shape known;
  for (int64_t dim : dims)
    if (dim != -1) known.push_back(dim);
  const auto count = known.checked_elements();
  if (!count)
    return wrong(fmt::format("dimensions are at least 0 and elements at most {}", kMaxElements));
  if (open == 1) {
    if (*count == 0 || x.elements() % *count != 0)
      return wrong(
          fmt::format("{} elements do not divide into the other dimensions", x.elements()));
    *std::find(dims.begin(), dims.end(), -1) = x.elements() / *count;
  } else if (*count != x.elements()) {
    return wrong(fmt::format("{} elements against {}", x.elements(), *count));
  }
  return c.give(Shape(std::span<const int64_t>(dims)));
}

bool infer_permute(InferContext& c) {
  const Shape& x = shape_of(c, 0);
  if (!list_has_rank(c, "axes", x.rank())) return false;
  Shape out;
  std::array<bool, kMaxRank> seen{};
  for (int64_t entry : c.integers("axes")) {
    const auto axis = axis_in(c, "axes", entry, x.rank());
    if (!axis) return false;
    if (std::exchange(seen[static_cast<size_t>(*axis)], true))
      return c.fail_attribute(ErrorCode::AxisRange, "axes",
                              fmt::format("axis {} is named twice", *axis));
    out.push_back(x[*axis]);
  }
  return c.give(out);
}

bool infer_slice(InferContext& c) {
  const Shape& x = shape_of(c, 0);
  if (!list_has_rank(c, "at", x.rank()) || !list_has_rank(c, "size", x.rank())) return false;
  if (c.has("stride") && !list_has_rank(c, "stride", x.rank())) return false;
  const auto size = shape_attribute(c, "size");
  if (!size) return false;
  std::vector<int64_t> strides = c.integers("stride");
  strides.resize(static_cast<size_t>(x.rank()), 1);
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t stride = strides[static_cast<size_t>(i)];
    const int64_t count = (*size)[i];
    if (stride < 1 || stride > kMaxElements)
      return c.fail_attribute(ErrorCode::InvalidAttribute, "stride",
                              fmt::format("stride {} on axis {} is not 1 or more", stride, i));
    const bool fits = count == 0 || (count - 1) <= (x[i] - 1) / stride;
    if (!fits || (count > 0 && x[i] == 0))
      return c.fail_attribute(ErrorCode::ShapeMismatch, "size",
                              fmt::format("{} elements with stride {} do not fit on axis {} of {}",
                                          count, stride, i, x.text()));
    const int64_t span = count == 0 ? 0 : (count - 1) * stride + 1;
    if (const auto at = c.static_index("at", static_cast<size_t>(i));
        at && (*at < 0 || *at > x[i] - span))
      return c.fail_attribute(
          ErrorCode::IndexRange, "at",
          fmt::format("{} elements with stride {} from {} on leave axis {} of {}", count, stride,
                      *at, i, x.text()));
  }
  return c.give(*size);
}

bool infer_update(InferContext& c) {
  const Shape& x = shape_of(c, 0);
  const Shape& y = shape_of(c, 1);
  if (x.rank() != y.rank()) return mismatch(c, 1, both(c, 0, 1, "they must have one rank"));
  if (!list_has_rank(c, "at", x.rank())) return false;
  for (int i = 0; i < x.rank(); ++i) {
    if (y[i] > x[i])
      return mismatch(c, 1, both(c, 0, 1, fmt::format("'y' is larger on axis {}", i)));
    if (const auto at = c.static_index("at", static_cast<size_t>(i));
        at && (*at < 0 || *at > x[i] - y[i]))
      return c.fail_attribute(
          ErrorCode::IndexRange, "at",
          fmt::format("{} elements from {} on leave axis {} of {}", y[i], *at, i, x.text()));
  }
  return c.give(x);
}

bool infer_concat(InferContext& c) {
  Shape out = shape_of(c, 0);
  const auto axis = axis_in(c, "axis", c.integer("axis"), out.rank());
  if (!axis) return false;
  for (size_t i = 1; i < c.operands.size(); ++i) {
    const Shape& other = c.operands[i].shape;
    bool fits = other.rank() == out.rank();
    for (int d = 0; fits && d < out.rank(); ++d) fits = d == *axis || other[d] == out[d];
    if (!fits)
      return mismatch(
          c, static_cast<int>(i),
          fmt::format(
              "operand {} has shape {} and the first {}: they must be equal but along axis {}",
              i + 1, other.text(), shape_of(c, 0).text(), *axis));
    out[*axis] += other[*axis];
    if (!out.checked_elements())
      return c.fail(
          ErrorCode::ShapeLimit, Part::operand, static_cast<int>(i),
          fmt::format("the result would be {}, more than {} elements", out.text(), kMaxElements));
  }
  return c.give(out);
}

bool infer_pad(InferContext& c) {
  Shape out = shape_of(c, 0);
  if (!list_has_rank(c, "low", out.rank()) || !list_has_rank(c, "high", out.rank())) return false;
  const std::vector<int64_t> low = c.integers("low");
  const std::vector<int64_t> high = c.integers("high");
  for (int i = 0; i < out.rank(); ++i) {
    for (const auto& [attribute, amounts] : {std::pair{"low", &low}, std::pair{"high", &high}}) {
      const int64_t amount = (*amounts)[static_cast<size_t>(i)];
      if (amount < 0 || amount > kMaxElements)
        return c.fail_attribute(
            ErrorCode::InvalidAttribute, attribute,
            fmt::format("padding {} on axis {} is not between 0 and {}", amount, i, kMaxElements));
      out[i] += amount;
    }
  }
  return c.give(out);
}

bool infer_gather(InferContext& c) {
  Shape out;
  return gather_shape(c, out) && c.give(out);
}

bool infer_scatter(InferContext& c) {
  Shape want;
  if (!gather_shape(c, want)) return false;
  if (shape_of(c, 2) != want)
    return mismatch(c, 2,
                    fmt::format("'y' has shape {}: for 'x' {} and 'index' {} it must be {}",
                                shape_of(c, 2).text(), shape_of(c, 0).text(), shape_of(c, 1).text(),
                                want.text()));
  return c.give(shape_of(c, 0));
}

bool infer_broadcast_to(InferContext& c) {
  const auto shape = shape_attribute(c, "shape");
  if (!shape) return false;
  const auto joined = broadcast_shapes(shape_of(c, 0), *shape);
  if (!joined || *joined != *shape)
    return c.fail_attribute(ErrorCode::ShapeMismatch, "shape",
                            fmt::format("{} does not broadcast to {}: dimensions aligned at the "
                                        "last axis must be equal, or 1 in the operand",
                                        shape_of(c, 0).text(), shape->text()));
  return c.give(*shape);
}

bool infer_one_hot(InferContext& c) {
  Shape out = shape_of(c, 0);
  const int64_t depth = c.integer("depth");
  if (depth < 0 || depth > kMaxElements)
    return c.fail_attribute(ErrorCode::InvalidAttribute, "depth",
                            fmt::format("depth {} is not between 0 and {}", depth, kMaxElements));
  if (out.rank() == kMaxRank)
    return c.fail(ErrorCode::ShapeLimit, Part::operand, 0,
                  fmt::format("the result would have more than {} dimensions", kMaxRank));
  out.push_back(depth);
  return c.give(out);
}

}  // namespace trek::isa::shape
