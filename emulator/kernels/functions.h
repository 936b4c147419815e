// The kernels of one level by name: what the table (table.cpp) collects, and what kernels call of each
// other. What each does is said where the table is declared (kernels.h).
#pragma once

#include "emulator/kernels/kernels.h"

#ifndef TREK_KERNEL_LEVEL
#error "TREK_KERNEL_LEVEL names the namespace of a level: emulator/kernels/CMakeLists.txt"
#endif

namespace trek::kernels::TREK_KERNEL_LEVEL {

void convert_run(void* r, DType to, const void* x, DType from, int64_t n);

ElementFunction element_f32(Opcode opcode);
ElementFunction element_f64(Opcode opcode);
ElementFunction element_integer(Opcode opcode, DType lane);
ElementFunction element_where(DType lane);
ElementFunction find_element(Opcode opcode, DType lane);
void run_pointwise(const PointwiseTask& task, int64_t begin, int64_t end);

int64_t find_zero(const void* x, DType dtype, int64_t n);
int64_t find_outside(const void* x, DType dtype, int64_t n, int64_t limit);
int64_t find_not_finite(const void* x, DType dtype, int64_t n);

int64_t count_reduce_units(const ReduceTask& task);
void run_reduce(const ReduceTask& task, int64_t begin, int64_t end);
// The reduction of n consecutive elements of a lane type; n is at least 1.
float reduce_sum(const float* x, int64_t n);
double reduce_sum(const double* x, int64_t n);
void run_arg(const ArgTask& task, int64_t begin, int64_t end);
void run_cumsum(const CumsumTask& task, int64_t begin, int64_t end);

MatrixShape shape_of_tiles(DType lane);
void pack_left_panel(const PackTask& task);
void pack_right_panel(const PackTask& task);
void run_tile(const TileTask& task);
void add_totals(void* total, const void* part, DType lane, int64_t n);
void finish_tile(const FinishTask& task);
void multiply_vector(const VectorTask& task, int64_t begin, int64_t end);

void softmax_rows(const SoftmaxRows& rows);
void log_softmax_rows(const SoftmaxRows& rows);
void softmax_grad_rows(const SoftmaxGradRows& rows);
void log_softmax_grad_rows(const SoftmaxGradRows& rows);
void cross_entropy_rows(const CrossEntropyRows& rows);

void optimize_range(const OptimizerTask& task, int64_t begin, int64_t end);

void fill_uniform(const RandomTask& task, int64_t begin, int64_t end);
void fill_normal(const RandomTask& task, int64_t begin, int64_t end);
void fill_bernoulli(const RandomTask& task, int64_t begin, int64_t end);
void fill_words(const RandomTask& task, int64_t begin, int64_t end);
void drop_out(const DropoutTask& task, int64_t begin, int64_t end);
void drop_out_grad(const DropoutTask& task, int64_t begin, int64_t end);

void transpose_block(void* r, int64_t r_stride, const void* x, int64_t x_stride, int64_t rows,
                     int64_t columns, int element_bytes);

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
