// The shape rules of ops.def. When one runs, the table's rules hold: operand counts, forms and element
// types, and the kind of every attribute.
#include "isa/shape_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "isa/infer.h"

namespace trek::isa::shape {
namespace {

using Part = Fault::Part;

bool mismatch(InferContext& c, int operand, std::string message) {
  return c.fail(ErrorCode::ShapeMismatch, Part::operand, operand, std::move(message));
}

const Shape& shape_of(InferContext& c, int operand) { return c.operands[static_cast<size_t>(operand)].shape; }

std::string_view operand_name(InferContext& c, int operand) {
  return c.op.operands[static_cast<size_t>(operand)].name;
}

// Both shapes and the rule, as every shape error shows them.
std::string both(InferContext& c, int first, int second, std::string_view rule) {
  return fmt::format("'{}' has shape {} and '{}' {}: {}", operand_name(c, first), shape_of(c, first).text(),
                     operand_name(c, second), shape_of(c, second).text(), rule);
}

// An attribute axis, counted from the end where negative; nothing, with a fault, outside the rank.
std::optional<int> axis_in(InferContext& c, std::string_view attribute, int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  c.fail_attribute(ErrorCode::AxisRange, attribute,
                   fmt::format("axis {} is outside a tensor of rank {}", axis, rank));
  return std::nullopt;
}

bool list_has_rank(InferContext& c, std::string_view attribute, int rank) {
  const size_t size = c.list_size(attribute);
  if (size == static_cast<size_t>(rank)) return true;
  return c.fail_attribute(ErrorCode::InvalidAttribute, attribute,
                          fmt::format("'{}' has {} entries for a tensor of rank {}", attribute, size, rank));
}

// The attribute as a shape: a rank and dimensions that the ISA allows.
std::optional<Shape> shape_attribute(InferContext& c, std::string_view attribute) {
  const std::vector<int64_t> dims = c.integers(attribute);
  if (dims.size() > kMaxRank) {
    c.fail_attribute(ErrorCode::ShapeLimit, attribute,
                     fmt::format("'{}' has {} dimensions, more than {}", attribute, dims.size(), kMaxRank));
    return std::nullopt;
  }
  Shape shape{std::span<const int64_t>(dims)};
  if (!shape.checked_elements()) {
    c.fail_attribute(ErrorCode::ShapeLimit, attribute,
                     fmt::format("'{}' is {}: dimensions are at least 0 and elements at most {}", attribute,
                                 shape.text(), kMaxElements));
    return std::nullopt;
  }
  return shape;
}

bool give_all(InferContext& c, const Shape& shape) {
  for (size_t i = 0; i < c.op.results.size(); ++i)
    if (!c.give(shape)) return false;
  return true;
}

// Result type for instructions that scalars alone make scalar.
bool give_elementwise(InferContext& c, const Shape& shape) {
  const bool scalar = std::all_of(c.operands.begin(), c.operands.end(), [](const Type& t) { return t.scalar; });
  if (!scalar) return c.give(shape);
  const DType dtype = c.result_dtype(0);
  if (!is_scalar_type(dtype))
    return c.fail(ErrorCode::OperandType, Part::result, 0,
                  fmt::format("a scalar is of type i64, f32, f64 or bool, not {}", name(dtype)));
  c.results.push_back(Type::make_scalar(dtype));
  return true;
}

bool gather_shape(InferContext& c, Shape& out) {
  const Shape& x = shape_of(c, 0);
  const Shape& index = shape_of(c, 1);
  const auto axis = axis_in(c, "axis", c.integer("axis"), x.rank());
  if (!axis) return false;
  if (x.rank() - 1 + index.rank() > kMaxRank)
    return c.fail(ErrorCode::ShapeLimit, Part::operand, 1,
                  fmt::format("'x' has shape {} and 'index' {}: together more than {} dimensions", x.text(),
                              index.text(), kMaxRank));
  for (int i = 0; i < *axis; ++i) out.push_back(x[i]);
  for (int64_t dim : index) out.push_back(dim);
  for (int i = *axis + 1; i < x.rank(); ++i) out.push_back(x[i]);
  return true;
}

bool same_shape(InferContext& c, int first, int second) {
  if (shape_of(c, first) == shape_of(c, second)) return true;
  return mismatch(c, second, both(c, first, second, "they must be equal"));
}

bool all_same_shape(InferContext& c) {
  for (int i = 1; i < static_cast<int>(c.operands.size()); ++i)
    if (!same_shape(c, 0, i)) return false;
  return true;
}

// Rows and classes of z [..., C] against t [...].
bool check_classes(InferContext& c, int z, int t, Shape& rows) {
  const Shape& logits = shape_of(c, z);
  if (logits.rank() == 0)
    return mismatch(c, z, "'z' has shape []: logits are [..., C], with a last axis for the classes");
  rows = Shape(logits.dims().first(static_cast<size_t>(logits.rank() - 1)));
  if (rows == shape_of(c, t)) return true;
  return mismatch(c, t, both(c, z, t, fmt::format("for logits [..., C] the classes are [...], here {}", rows.text())));
}

constexpr int kNoReduction = 2;

Shape loss_shape(InferContext& c, const Shape& rows) {
  return c.choice("reduction") == kNoReduction ? rows : Shape{};
}

}  // namespace

bool infer_none(InferContext&) { return true; }

bool infer_same(InferContext& c) { return give_elementwise(c, shape_of(c, 0)); }

bool infer_same_shapes(InferContext& c) { return all_same_shape(c) && give_all(c, shape_of(c, 0)); }

bool infer_broadcast(InferContext& c) {
  Shape out;
  for (int i = 0; i < static_cast<int>(c.operands.size()); ++i) {
    const auto joined = broadcast_shapes(out, shape_of(c, i));
    if (!joined) {
      if (i == 1) return mismatch(c, i, both(c, 0, 1, "dimensions aligned at the last axis must be equal or 1"));
      return mismatch(c, i, fmt::format("'{}' has shape {} against {}: dimensions aligned at the last axis must be equal or 1",
                                        operand_name(c, i), shape_of(c, i).text(), out.text()));
    }
    out = *joined;
  }
  return give_elementwise(c, out);
}

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
    return c.fail_attribute(ErrorCode::ShapeMismatch, "shape",
                            fmt::format("{} cannot be reshaped to [{}]: {}", x.text(), fmt::join(dims, ","), why));
  };
  if (dims.size() > kMaxRank) return wrong(fmt::format("a shape has at most {} dimensions", kMaxRank));
  if (open > 1) return wrong("at most one dimension may be -1");
  Shape known;
  for (int64_t dim : dims)
    if (dim != -1) known.push_back(dim);
  const auto count = known.checked_elements();
  if (!count) return wrong(fmt::format("dimensions are at least 0 and elements at most {}", kMaxElements));
  if (open == 1) {
    if (*count == 0 || x.elements() % *count != 0)
      return wrong(fmt::format("{} elements do not divide into the other dimensions", x.elements()));
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
      return c.fail_attribute(ErrorCode::AxisRange, "axes", fmt::format("axis {} is named twice", *axis));
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
      return c.fail_attribute(ErrorCode::InvalidAttribute, "stride", fmt::format("stride {} on axis {} is not 1 or more", stride, i));
    const bool fits = count == 0 || (count - 1) <= (x[i] - 1) / stride;
    if (!fits || (count > 0 && x[i] == 0))
      return c.fail_attribute(ErrorCode::ShapeMismatch, "size",
                              fmt::format("{} elements with stride {} do not fit on axis {} of {}", count, stride, i, x.text()));
    const int64_t span = count == 0 ? 0 : (count - 1) * stride + 1;
    if (const auto at = c.static_index("at", static_cast<size_t>(i)); at && (*at < 0 || *at > x[i] - span))
      return c.fail_attribute(ErrorCode::IndexRange, "at",
                              fmt::format("{} elements with stride {} from {} on leave axis {} of {}", count, stride, *at, i, x.text()));
  }
  return c.give(*size);
}

bool infer_update(InferContext& c) {
  const Shape& x = shape_of(c, 0);
  const Shape& y = shape_of(c, 1);
  if (x.rank() != y.rank()) return mismatch(c, 1, both(c, 0, 1, "they must have one rank"));
  if (!list_has_rank(c, "at", x.rank())) return false;
  for (int i = 0; i < x.rank(); ++i) {
    if (y[i] > x[i]) return mismatch(c, 1, both(c, 0, 1, fmt::format("'y' is larger on axis {}", i)));
    if (const auto at = c.static_index("at", static_cast<size_t>(i)); at && (*at < 0 || *at > x[i] - y[i]))
      return c.fail_attribute(ErrorCode::IndexRange, "at",
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
      return mismatch(c, static_cast<int>(i),
                      fmt::format("operand {} has shape {} and the first {}: they must be equal but along axis {}", i + 1,
                                  other.text(), shape_of(c, 0).text(), *axis));
    out[*axis] += other[*axis];
    if (!out.checked_elements())
      return c.fail(ErrorCode::ShapeLimit, Part::operand, static_cast<int>(i),
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
        return c.fail_attribute(ErrorCode::InvalidAttribute, attribute,
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
    return mismatch(c, 2, fmt::format("'y' has shape {}: for 'x' {} and 'index' {} it must be {}", shape_of(c, 2).text(),
                                      shape_of(c, 0).text(), shape_of(c, 1).text(), want.text()));
  return c.give(shape_of(c, 0));
}

bool infer_broadcast_to(InferContext& c) {
  const auto shape = shape_attribute(c, "shape");
  if (!shape) return false;
  const auto joined = broadcast_shapes(shape_of(c, 0), *shape);
  if (!joined || *joined != *shape)
    return c.fail_attribute(ErrorCode::ShapeMismatch, "shape",
                            fmt::format("{} does not broadcast to {}: dimensions aligned at the last axis must be equal, or 1 in the operand",
                                        shape_of(c, 0).text(), shape->text()));
  return c.give(*shape);
}

bool infer_one_hot(InferContext& c) {
  Shape out = shape_of(c, 0);
  const int64_t depth = c.integer("depth");
  if (depth < 0 || depth > kMaxElements)
    return c.fail_attribute(ErrorCode::InvalidAttribute, "depth", fmt::format("depth {} is not between 0 and {}", depth, kMaxElements));
  if (out.rank() == kMaxRank)
    return c.fail(ErrorCode::ShapeLimit, Part::operand, 0, fmt::format("the result would have more than {} dimensions", kMaxRank));
  out.push_back(depth);
  return c.give(out);
}

bool infer_reduce(InferContext& c) {
  const Shape& x = shape_of(c, 0);
  std::array<bool, kMaxRank> reduced{};
  const std::vector<int64_t> axes = c.integers("axis");
  if (!c.has("axis")) reduced.fill(true);
  for (int64_t entry : axes) {
    const auto axis = axis_in(c, "axis", entry, x.rank());
    if (!axis) return false;
    if (std::exchange(reduced[static_cast<size_t>(*axis)], true))
      return c.fail_attribute(ErrorCode::AxisRange, "axis", fmt::format("axis {} is named twice", *axis));
  }
  Shape out;
  bool empty = false;
  for (int i = 0; i < x.rank(); ++i) {
    if (!reduced[static_cast<size_t>(i)]) {
      out.push_back(x[i]);
    } else {
      empty = empty || x[i] == 0;
      if (c.flag("keep")) out.push_back(1);
    }
  }
  const bool has_identity = c.op.opcode == Opcode::Sum || c.op.opcode == Opcode::Prod ||
                            c.op.opcode == Opcode::Mean || c.op.opcode == Opcode::Norm2;
  if (empty && !has_identity && out.elements() > 0)
    return c.fail(ErrorCode::EmptyReduction, Part::operand, 0,
                  fmt::format("'{}' over no elements has no value: the operand has shape {}", c.op.mnemonic, x.text()));
  return c.give(out);
}

bool infer_along_axis(InferContext& c) {
  const Shape& x = shape_of(c, 0);
  if (!all_same_shape(c) || !axis_in(c, "axis", c.integer("axis"), x.rank())) return false;
  return c.give(x);
}

bool infer_top_k(InferContext& c) {
  Shape out = shape_of(c, 0);
  const auto axis = axis_in(c, "axis", c.integer("axis"), out.rank());
  if (!axis) return false;
  const int64_t k = c.integer("k");
  if (k < 0 || k > out[*axis])
    return c.fail_attribute(ErrorCode::InvalidAttribute, "k", fmt::format("k is {}, outside 0 to {}, the size of axis {}", k, out[*axis], *axis));
  out[*axis] = k;
  return c.give(out) && c.give(out);
}

bool infer_matmul(InferContext& c) {
  const Shape& a = shape_of(c, 0);
  const Shape& b = shape_of(c, 1);
  if (a.rank() < 2 || b.rank() < 2)
    return mismatch(c, a.rank() < 2 ? 0 : 1, both(c, 0, 1, "a matrix has at least two axes"));
  const bool ta = c.flag("ta");
  const bool tb = c.flag("tb");
  const int64_t m = a[a.rank() - (ta ? 1 : 2)];
  const int64_t ka = a[a.rank() - (ta ? 2 : 1)];
  const int64_t kb = b[b.rank() - (tb ? 1 : 2)];
  const int64_t n = b[b.rank() - (tb ? 2 : 1)];
  if (ka != kb)
    return mismatch(c, 1, both(c, 0, 1, fmt::format("K of a{} is {}, of b{} {}: {} times {} needs them equal",
                                                    ta ? " (transposed)" : "", ka, tb ? " (transposed)" : "", kb,
                                                    ta ? "[..., K, M]" : "[..., M, K]", tb ? "[..., N, K]" : "[..., K, N]")));
  const auto batch = broadcast_shapes(Shape(a.dims().first(static_cast<size_t>(a.rank() - 2))),
                                      Shape(b.dims().first(static_cast<size_t>(b.rank() - 2))));
  if (!batch) return mismatch(c, 1, both(c, 0, 1, "the leading (batch) dimensions do not broadcast"));
  Shape out = *batch;
  out.push_back(m);
  out.push_back(n);

  const bool reals = is_real(c.t);
  const DType accumulator = reals ? compute_type(c.t) : byte_size(c.t) == 8 ? DType::i64 : DType::i32;
  DType to = c.dtype("to");
  if (to == DType::none) to = reals ? c.t : accumulator;
  if (reals ? !is_real(to) : !is_real(to) && to != DType::i32 && to != DType::i64)
    return c.fail_attribute(ErrorCode::InvalidAttribute, "to",
                            fmt::format("a product of {} gives {}, not {}", name(c.t), reals ? "a float type" : "i32, i64 or a float type", name(to)));
  for (std::string_view attribute : {"scale", "tail"})
    if (!reals && c.has(attribute))
      return c.fail_attribute(ErrorCode::InvalidAttribute, attribute, fmt::format("'{}' needs float operands, found {}", attribute, name(c.t)));
  if (c.operands[2].dtype != DType::none) {
    const Type& bias = c.operands[2];
    const bool type_fits = reals ? bias.dtype == c.t || bias.dtype == accumulator : bias.dtype == accumulator;
    if (!type_fits)
      return c.fail(ErrorCode::OperandType, Part::operand, 2,
                    fmt::format("operand 'bias' of 'matmul' is of type {} or {}, found {}", name(reals ? c.t : accumulator), name(accumulator), bias.text()));
    const auto joined = broadcast_shapes(bias.shape, out);
    if (!joined || *joined != out)
      return mismatch(c, 2, fmt::format("'bias' has shape {} and the product {}: the bias must broadcast to it", bias.shape.text(), out.text()));
  }
  if (!out.checked_elements())
    return c.fail(ErrorCode::ShapeLimit, Part::result, 0, fmt::format("the result would be {}, more than {} elements", out.text(), kMaxElements));
  c.results.push_back(Type::tensor(to, out));
  return true;
}

bool infer_cross_entropy(InferContext& c) {
  Shape rows;
  return check_classes(c, 0, 1, rows) && c.give(loss_shape(c, rows));
}

bool infer_cross_entropy_grad(InferContext& c) {
  Shape rows;
  if (!check_classes(c, 1, 2, rows)) return false;
  if (shape_of(c, 0) != loss_shape(c, rows))
    return mismatch(c, 0, fmt::format("'dl' has shape {}: the loss of 'z' {} has {}", shape_of(c, 0).text(), shape_of(c, 1).text(), loss_shape(c, rows).text()));
  return c.give(shape_of(c, 1));
}

bool infer_cross_entropy_with_grad(InferContext& c) {
  return infer_cross_entropy(c) && c.give(shape_of(c, 0));
}

bool infer_optimizer(InferContext& c) { return all_same_shape(c); }

bool infer_clip_norm(InferContext& c) {
  if (!c.give(Shape{})) return false;
  for (const Type& type : c.operands) c.results.push_back(type);
  return true;
}

bool infer_permutation(InferContext& c) {
  const int64_t n = c.integer("n");
  // The sort key of an element is its random word and its index, which share 64 bits.
  constexpr int64_t kMost = int64_t{1} << 32;
  if (n < 0 || n > kMost)
    return c.fail_attribute(ErrorCode::InvalidAttribute, "n", fmt::format("n is {}, outside 0 to {}", n, kMost));
  return c.give(Shape{n});
}

bool infer_dropout(InferContext& c) { return give_all(c, shape_of(c, 0)); }

bool infer_region(InferContext&) { return true; }

bool infer_call(InferContext&) { return true; }

namespace {

bool check_element_place(InferContext& c) {
  const Shape& x = shape_of(c, 0);
  if (!list_has_rank(c, "at", x.rank())) return false;
  for (int i = 0; i < x.rank(); ++i)
    if (const auto at = c.static_index("at", static_cast<size_t>(i)); at && (*at < 0 || *at >= x[i]))
      return c.fail_attribute(ErrorCode::IndexRange, "at", fmt::format("index {} leaves axis {} of {}", *at, i, x.text()));
  return true;
}

}  // namespace

bool infer_load(InferContext& c) {
  if (!check_element_place(c)) return false;
  c.results.push_back(Type::make_scalar(c.result_dtype(0)));
  return true;
}

bool infer_store(InferContext& c) {
  const DType want = scalar_type(c.t);
  if (c.operands[1].dtype != want)
    return c.fail(ErrorCode::OperandType, Part::operand, 1,
                  fmt::format("an element of {} is stored from a scalar of type {}, found {}", c.operands[0].text(), name(want), c.operands[1].text()));
  return check_element_place(c);
}

bool infer_next(InferContext& c) {
  if (!c.give(shape_of(c, 0))) return false;
  c.results.push_back(Type::make_scalar(DType::boolean));
  return true;
}

}  // namespace trek::isa::shape
