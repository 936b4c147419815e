// Optimizer steps, in place, and the clipping of gradients by their common norm.
#include <cmath>

#include <fmt/format.h>

#include "emulator/ref/execute.h"
#include "emulator/ref/reduce.h"

namespace trek::ref {
namespace {

using kernels::kTile;
using kernels::OptimizerTask;
using kernels::PointwiseTask;
using kernels::ReduceTask;

constexpr int64_t kGrain = 16'384;  // elements worth a thread

// Operands: w, then the moments, then g. Real attributes in the order of their row.
Status optimize(Step& step) {
  OptimizerTask task;
  task.opcode = step.op().opcode;
  task.dtype = step.operand(0).dtype();
  task.w = step.operand(0).data;
  task.g = step.operand(step.operand_count() - 1).data;
  if (step.operand_count() > 2) task.v = step.operand(step.operand_count() - 2).data;
  if (step.operand_count() > 3) task.m = step.operand(1).data;
  int reals = 0;
  for (const isa::AttributeInfo& attribute : step.op().attributes) {
    if (attribute.kind == isa::AttributeKind::real)
      task.real[reals++] = step.real(attribute.name);
    else if (attribute.kind == isa::AttributeKind::flag)
      task.nesterov = step.flag(attribute.name);
    else
      task.step = step.integer(attribute.name);
  }
  if (step.op().attribute("step") >= 0 && task.step < 1)
    return trap(isa::TrapCode::InvalidArgument, -1,
                fmt::format("step is {}: steps count from 1", task.step));
  step.pool().ranges(step.operand(0).elements(), kGrain, 64, [&](int64_t begin, int64_t end) {
    step.kernels().optimize(task, begin, end);
  });
  return nullptr;
}

// The norm of all operands in C, and what they are multiplied by.
template <class C>
Status common_norm(Step& step, DType lane, C& norm, C& factor) {
  C total = C(0);
  for (size_t i = 0; i < step.operand_count(); ++i) {
    const Tensor& g = step.operand(i);
    C sum = C(0);
    if (g.elements() > 0) {
      ReduceTask task = reduce_all(g.data, g.dtype(), lane, g.elements());
      task.square = true;
      if (Status status = reduce_to(step, task, reinterpret_cast<std::byte*>(&sum))) return status;
    }
    total = i == 0 ? sum : total + sum;
  }
  norm = std::sqrt(total);
  const C most = static_cast<C>(step.real("max"));
  factor = norm > most ? most / norm : C(1);
  return nullptr;
}

template <class C>
Status clip(Step& step, DType lane) {
  C norm = C(0);
  C factor = C(0);
  if (Status status = common_norm(step, lane, norm, factor)) return status;
  *step.result(0).as<C>() = norm;
  for (size_t i = 0; i < step.operand_count(); ++i) {
    const Tensor& g = step.operand(i);
    const int64_t n = g.elements();
    PointwiseTask task;
    task.function = step.kernels().element(isa::Opcode::Mul, lane);
    task.operands = 2;
    task.result = step.result(i + 1).data;
    task.dtype = g.dtype();
    task.lane = lane;
    task.operand[0] = {.data = g.data, .dtype = g.dtype(), .lane = lane, .dense = true};
    task.operand[1] = {.data = reinterpret_cast<const std::byte*>(&factor),
                       .dtype = lane,
                       .lane = lane,
                       .rank = 1,
                       .dims = {n}};
    step.pool().ranges(n, 2 * kGrain, kTile, [&](int64_t begin, int64_t end) {
      step.kernels().pointwise(task, begin, end);
    });
  }
  return nullptr;
}

}  // namespace

Status execute(Op<Opcode::Sgd>, Step& step) { return optimize(step); }
Status execute(Op<Opcode::SgdMomentum>, Step& step) { return optimize(step); }
Status execute(Op<Opcode::Adam>, Step& step) { return optimize(step); }
Status execute(Op<Opcode::Adamw>, Step& step) { return optimize(step); }
Status execute(Op<Opcode::Rmsprop>, Step& step) { return optimize(step); }

Status execute(Op<Opcode::ClipNorm>, Step& step) {
  const DType lane = step.result(0).dtype();
  return lane == DType::f64 ? clip<double>(step, lane) : clip<float>(step, lane);
}

}  // namespace trek::ref
