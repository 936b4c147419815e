// The shape rules that ops.def names, each with its words for the manual.
#pragma once

#include "isa/ops.h"

namespace trek::isa::shape {

#define TREK_SHAPE_RULE(kRule, function, words) \
  bool function(InferContext& context);         \
  inline constexpr ShapeRule kRule { &function, words }

TREK_SHAPE_RULE(kNone, infer_none, "No result.");
TREK_SHAPE_RULE(kSame, infer_same, "The result has the operand's shape.");
TREK_SHAPE_RULE(kSameShapes, infer_same_shapes,
                "All operands have one shape, and so has the result.");
TREK_SHAPE_RULE(
    kBroadcast, infer_broadcast,
    "Shapes are aligned at the last axis; along each, dimensions are equal or 1 is repeated. "
    "Scalars fit any shape; of scalars alone the result is a scalar.");
TREK_SHAPE_RULE(kGiven, infer_given, "The result has the shape `shape`.");
TREK_SHAPE_RULE(kIota, infer_iota, "The result has the shape `shape`; `axis` is one of its axes.");
TREK_SHAPE_RULE(kReshape, infer_reshape, "`shape` has as many elements as the operand.");
TREK_SHAPE_RULE(
    kPermute, infer_permute,
    "`axes` names each axis of the operand once; result dimension i is that of axis axes[i].");
TREK_SHAPE_RULE(
    kSlice, infer_slice,
    "`at`, `size` and `stride` have one entry per axis; the box lies within the operand. "
    "The result has the shape `size`.");
TREK_SHAPE_RULE(kUpdate, infer_update,
                "`y` has the rank of `x`, `at` one entry per axis, and the box lies within `x`.");
TREK_SHAPE_RULE(kConcat, infer_concat,
                "Operands have one rank and equal dimensions but along `axis`, where they add up.");
TREK_SHAPE_RULE(kPad, infer_pad,
                "`low` and `high` have one entry of at least 0 per axis and add to its dimension.");
TREK_SHAPE_RULE(kGather, infer_gather,
                "The dimensions of `index` take the place of the dimension of `x` along `axis`.");
TREK_SHAPE_RULE(kScatter, infer_scatter,
                "`y` has the shape that `gather` of `x` by `index` would have.");
TREK_SHAPE_RULE(kBroadcastTo, infer_broadcast_to, "The operand's shape broadcasts to `shape`.");
TREK_SHAPE_RULE(kOneHot, infer_one_hot, "The dimensions of `index`, then `depth`.");
TREK_SHAPE_RULE(kReduce, infer_reduce,
                "The reduced axes disappear, or stay with size 1 under `keep`.");
TREK_SHAPE_RULE(
    kAlongAxis, infer_along_axis,
    "All operands have one shape, `axis` is one of its axes, and the result has that shape.");
TREK_SHAPE_RULE(kTopK, infer_top_k, "0 <= k <= the dimension along `axis`, which becomes k.");
TREK_SHAPE_RULE(
    kMatmul, infer_matmul,
    "a is [..., M, K] and b [..., K, N], with ta [..., K, M] and with tb [..., N, K]; leading "
    "dimensions broadcast. The result is [..., M, N]; the bias broadcasts to it.");
TREK_SHAPE_RULE(kCrossEntropy, infer_cross_entropy,
                "z is [..., C] and t [...]; the loss is [], or [...] with reduction `none`.");
TREK_SHAPE_RULE(kCrossEntropyGrad, infer_cross_entropy_grad,
                "z is [..., C], t [...], dl has the shape of the loss; the result that of z.");
TREK_SHAPE_RULE(kCrossEntropyWithGrad, infer_cross_entropy_with_grad,
                "As cross_entropy; the gradient has the shape of z.");
TREK_SHAPE_RULE(kOptimizer, infer_optimizer, "All operands have one shape.");
TREK_SHAPE_RULE(kClipNorm, infer_clip_norm,
                "The norm is []; each clipped tensor has the shape of its operand.");
TREK_SHAPE_RULE(kPermutation, infer_permutation, "The result is [n].");
TREK_SHAPE_RULE(kDropout, infer_dropout, "Both results have the operand's shape.");
TREK_SHAPE_RULE(kRegion, infer_region, "The results have the types that the region yields.");
TREK_SHAPE_RULE(kCall, infer_call,
                "Arguments and results have the types of the function's signature.");
TREK_SHAPE_RULE(kLoad, infer_load, "`at` has one entry per axis; the result is a scalar.");
TREK_SHAPE_RULE(kStore, infer_store, "`at` has one entry per axis.");
TREK_SHAPE_RULE(kNext, infer_next, "The block has the stream's shape; `more` is a scalar bool.");

#undef TREK_SHAPE_RULE

}  // namespace trek::isa::shape
