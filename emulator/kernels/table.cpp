// The kernels of one level, collected.
#include "emulator/kernels/functions.h"

#define TREK_KERNEL_TEXT_OF(level) #level
#define TREK_KERNEL_TEXT(level) TREK_KERNEL_TEXT_OF(level)

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {

constexpr Kernels kKernels = {
    .level = TREK_KERNEL_TEXT(TREK_KERNEL_LEVEL),
    .convert = convert_run,
    .element = find_element,
    .pointwise = run_pointwise,
    .first_zero = find_zero,
    .first_outside = find_outside,
    .first_not_finite = find_not_finite,
    .reduce_units = count_reduce_units,
    .reduce = run_reduce,
    .arg = run_arg,
    .cumsum = run_cumsum,
    .matrix_shape = shape_of_tiles,
    .pack_left = pack_left_panel,
    .pack_right = pack_right_panel,
    .tile = run_tile,
    .add = add_totals,
    .finish = finish_tile,
    .vector_matrix = multiply_vector,
    .softmax = softmax_rows,
    .log_softmax = log_softmax_rows,
    .softmax_grad = softmax_grad_rows,
    .log_softmax_grad = log_softmax_grad_rows,
    .cross_entropy = cross_entropy_rows,
    .optimize = optimize_range,
    .uniform = fill_uniform,
    .normal = fill_normal,
    .bernoulli = fill_bernoulli,
    .words = fill_words,
    .dropout = drop_out,
    .dropout_grad = drop_out_grad,
    .transpose = transpose_block,
};

}  // namespace

const Kernels& kernels() { return kKernels; }

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
