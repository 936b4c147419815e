// The shape rules of every family but move.
#include <utility>

#include "isa/shape_rule_parts.h"

namespace trek::isa::shape {

bool infer_none(InferContext&) { return true; }

bool infer_same(InferContext& c) { return give_elementwise(c, shape_of(c, 0)); }

bool infer_same_shapes(InferContext& c) { return all_same_shape(c) && give_all(c, shape_of(c, 0)); }

bool infer_broadcast(InferContext& c) {
  Shape out;
  for (int i = 0; i < static_cast<int>(c.operands.size()); ++i) {
    const auto joined = broadcast_shapes(out, shape_of(c, i));
    if (!joined) {
      if (i == 1)
        return mismatch(c, i,
                        both(c, 0, 1, "dimensions aligned at the last axis must be equal or 1"));
      return mismatch(c, i,
                      fmt::format("'{}' has shape {} against {}: dimensions aligned at the last "
                                  "axis must be equal or 1",
                                  operand_name(c, i), shape_of(c, i).text(), out.text()));
    }
    out = *joined;
  }
  return give_elementwise(c, out);
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
      return c.fail_attribute(ErrorCode::AxisRange, "axis",
                              fmt::format("axis {} is named twice", *axis));
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
                  fmt::format("'{}' over no elements has no value: the operand has shape {}",
                              c.op.mnemonic, x.text()));
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
    return c.fail_attribute(
        ErrorCode::InvalidAttribute, "k",
        fmt::format("k is {}, outside 0 to {}, the size of axis {}", k, out[*axis], *axis));
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
    return mismatch(
        c, 1,
        both(c, 0, 1,
             fmt::format("K of a{} is {}, of b{} {}: {} times {} needs them equal",
                         ta ? " (transposed)" : "", ka, tb ? " (transposed)" : "", kb,
                         ta ? "[..., K, M]" : "[..., M, K]", tb ? "[..., N, K]" : "[..., K, N]")));
  const auto batch = broadcast_shapes(Shape(a.dims().first(static_cast<size_t>(a.rank() - 2))),
                                      Shape(b.dims().first(static_cast<size_t>(b.rank() - 2))));
  if (!batch)
    return mismatch(c, 1, both(c, 0, 1, "the leading (batch) dimensions do not broadcast"));
  Shape out = *batch;
  out.push_back(m);
  out.push_back(n);

  const bool reals = is_real(c.t);
  const DType accumulator = reals                 ? compute_type(c.t)
                            : byte_size(c.t) == 8 ? DType::i64
                                                  : DType::i32;
  DType to = c.dtype("to");
  if (to == DType::none) to = reals ? c.t : accumulator;
  if (reals ? !is_real(to) : !is_real(to) && to != DType::i32 && to != DType::i64)
    return c.fail_attribute(
        ErrorCode::InvalidAttribute, "to",
        fmt::format("a product of {} gives {}, not {}", name(c.t),
                    reals ? "a float type" : "i32, i64 or a float type", name(to)));
  for (std::string_view attribute : {"scale", "tail"})
    if (!reals && c.has(attribute))
      return c.fail_attribute(
          ErrorCode::InvalidAttribute, attribute,
          fmt::format("'{}' needs float operands, found {}", attribute, name(c.t)));
  if (c.operands[2].dtype != DType::none) {
    const Type& bias = c.operands[2];
    const bool type_fits =
        reals ? bias.dtype == c.t || bias.dtype == accumulator : bias.dtype == accumulator;
    if (!type_fits)
      return c.fail(ErrorCode::OperandType, Part::operand, 2,
                    fmt::format("operand 'bias' of 'matmul' is of type {} or {}, found {}",
                                name(reals ? c.t : accumulator), name(accumulator), bias.text()));
    const auto joined = broadcast_shapes(bias.shape, out);
    if (!joined || *joined != out)
      return mismatch(
          c, 2,
          fmt::format("'bias' has shape {} and the product {}: the bias must broadcast to it",
                      bias.shape.text(), out.text()));
  }
  if (!out.checked_elements())
    return c.fail(
        ErrorCode::ShapeLimit, Part::result, 0,
        fmt::format("the result would be {}, more than {} elements", out.text(), kMaxElements));
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
    return mismatch(
        c, 0,
        fmt::format("'dl' has shape {}: the loss of 'z' {} has {}", shape_of(c, 0).text(),
                    shape_of(c, 1).text(), loss_shape(c, rows).text()));
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
    return c.fail_attribute(ErrorCode::InvalidAttribute, "n",
                            fmt::format("n is {}, outside 0 to {}", n, kMost));
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
    if (const auto at = c.static_index("at", static_cast<size_t>(i));
        at && (*at < 0 || *at >= x[i]))
      return c.fail_attribute(ErrorCode::IndexRange, "at",
                              fmt::format("index {} leaves axis {} of {}", *at, i, x.text()));
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
                  fmt::format("an element of {} is stored from a scalar of type {}, found {}",
                              c.operands[0].text(), name(want), c.operands[1].text()));
  return check_element_place(c);
}

bool infer_next(InferContext& c) {
  if (!c.give(shape_of(c, 0))) return false;
  c.results.push_back(Type::make_scalar(DType::boolean));
  return true;
}

}  // namespace trek::isa::shape
