// The shape rules that ops.def names, each with its words for the manual.
#pragma once

#include "isa/ops.h"

namespace trek::isa::shape {

#define TREK_SHAPE_RULE(id, text)        \
  bool infer_##id(InferContext& context); \
  inline constexpr ShapeRule id { &infer_##id, text }

TREK_SHAPE_RULE(none, "No result.");
TREK_SHAPE_RULE(same, "The result has the operand's shape.");
TREK_SHAPE_RULE(same_shapes, "All operands have one shape, and so has the result.");
TREK_SHAPE_RULE(broadcast,
                "Shapes are aligned at the last axis; along each, dimensions are equal or 1 is repeated. "
                "Scalars fit any shape; of scalars alone the result is a scalar.");
TREK_SHAPE_RULE(given, "The result has the shape `shape`.");
TREK_SHAPE_RULE(iota, "The result has the shape `shape`; `axis` is one of its axes.");
TREK_SHAPE_RULE(reshape, "`shape` has as many elements as the operand.");
TREK_SHAPE_RULE(permute, "`axes` names each axis of the operand once; result dimension i is that of axis axes[i].");
TREK_SHAPE_RULE(slice,
                "`at`, `size` and `stride` have one entry per axis; the box lies within the operand. "
                "The result has the shape `size`.");
TREK_SHAPE_RULE(update, "`y` has the rank of `x`, `at` one entry per axis, and the box lies within `x`.");
TREK_SHAPE_RULE(concat, "Operands have one rank and equal dimensions but along `axis`, where they add up.");
TREK_SHAPE_RULE(pad, "`low` and `high` have one entry of at least 0 per axis and add to its dimension.");
TREK_SHAPE_RULE(gather, "The dimensions of `index` take the place of the dimension of `x` along `axis`.");
TREK_SHAPE_RULE(scatter, "`y` has the shape that `gather` of `x` by `index` would have.");
TREK_SHAPE_RULE(broadcast_to, "The operand's shape broadcasts to `shape`.");
TREK_SHAPE_RULE(one_hot, "The dimensions of `index`, then `depth`.");
TREK_SHAPE_RULE(reduce, "The reduced axes disappear, or stay with size 1 under `keep`.");
TREK_SHAPE_RULE(along_axis, "All operands have one shape, `axis` is one of its axes, and the result has that shape.");
TREK_SHAPE_RULE(top_k, "0 <= k <= the dimension along `axis`, which becomes k.");
TREK_SHAPE_RULE(matmul,
                "a is [..., M, K] and b [..., K, N], with ta [..., K, M] and with tb [..., N, K]; leading "
                "dimensions broadcast. The result is [..., M, N]; the bias broadcasts to it.");
TREK_SHAPE_RULE(cross_entropy, "z is [..., C] and t [...]; the loss is [], or [...] with reduction `none`.");
TREK_SHAPE_RULE(cross_entropy_grad, "z is [..., C], t [...], dl has the shape of the loss; the result that of z.");
TREK_SHAPE_RULE(cross_entropy_with_grad, "As cross_entropy; the gradient has the shape of z.");
TREK_SHAPE_RULE(optimizer, "All operands have one shape.");
TREK_SHAPE_RULE(clip_norm, "The norm is []; each clipped tensor has the shape of its operand.");
TREK_SHAPE_RULE(permutation, "The result is [n].");
TREK_SHAPE_RULE(dropout, "Both results have the operand's shape.");
TREK_SHAPE_RULE(region, "The results have the types that the region yields.");
TREK_SHAPE_RULE(call, "Arguments and results have the types of the function's signature.");
TREK_SHAPE_RULE(load, "`at` has one entry per axis; the result is a scalar.");
TREK_SHAPE_RULE(store, "`at` has one entry per axis.");
TREK_SHAPE_RULE(next, "The block has the stream's shape; `more` is a scalar bool.");

#undef TREK_SHAPE_RULE

}  // namespace trek::isa::shape
