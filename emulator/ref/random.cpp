// Random tensors: elements are functions of key, offset and their index, so any thread makes any range.
#include <cstring>

#include <fmt/format.h>

#include "emulator/ref/execute.h"
#include "emulator/ref/order.h"

namespace trek::ref {
namespace {

using kernels::DropoutTask;
using kernels::kTile;
using kernels::RandomTask;

constexpr int64_t kGrain = 4'096;  // elements worth a thread

RandomTask task_of(const Step& step) {
  RandomTask task;
  task.key = step.key();
  task.offset = static_cast<uint64_t>(step.integer("offset"));
  task.dtype = step.result(0).dtype();
  task.r = step.result(0).data;
  return task;
}

Status generate(const Step& step, const RandomTask& task,
                void (*kernel)(const RandomTask&, int64_t, int64_t)) {
  step.pool().ranges(step.result(0).elements(), kGrain, kTile,
                     [&](int64_t begin, int64_t end) { kernel(task, begin, end); });
  return nullptr;
}

// The probability of dropout, or a trap.
Status check_probability(double p) {
  if (p >= 0 && p < 1) return nullptr;
  const std::string text = p == p ? fmt::format("{}", p) : "nan";  // one NaN, whatever its sign
  return trap(isa::TrapCode::InvalidArgument, -1, fmt::format("p is {}, outside 0 <= p < 1", text));
}

}  // namespace

Status execute(Op<Opcode::Uniform>, Step& step) {
  RandomTask task = task_of(step);
  task.a = step.real("low");
  task.b = step.real("high");
  return generate(step, task, step.kernels().uniform);
}

Status execute(Op<Opcode::Normal>, Step& step) {
  RandomTask task = task_of(step);
  task.a = step.real("mean");
  task.b = step.real("std");
  return generate(step, task, step.kernels().normal);
}

Status execute(Op<Opcode::Bernoulli>, Step& step) {
  RandomTask task = task_of(step);
  task.a = step.real("p");
  return generate(step, task, step.kernels().bernoulli);
}

Status execute(Op<Opcode::Permutation>, Step& step) {
  const Tensor& r = step.result(0);
  const int64_t n = r.elements();
  // Items to sort, room for as many, and the words.
  const uint64_t bytes = static_cast<uint64_t>(n) * 20;
  const Buffer scratch = step.scratch(bytes);
  if (!scratch) return step.out_of_memory(bytes);
  auto* items = reinterpret_cast<uint64_t*>(scratch.data());
  RandomTask task = task_of(step);
  task.r = scratch.data() + 16 * n;
  generate(step, task, step.kernels().words);
  const auto* words = reinterpret_cast<const uint32_t*>(task.r);
  for (int64_t i = 0; i < n; ++i) items[i] = uint64_t{words[i]} << 32 | static_cast<uint64_t>(i);
  sort_items(items, items + n, n);
  const int index_bytes = isa::byte_size(r.dtype());
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t index = items[i] & UINT32_MAX;
    std::memcpy(r.data + i * index_bytes, &index, static_cast<size_t>(index_bytes));
  }
  return nullptr;
}

Status execute(Op<Opcode::Dropout>, Step& step) {
  DropoutTask task;
  task.p = step.real("p");
  if (Status status = check_probability(task.p)) return status;
  task.key = step.key();
  task.offset = static_cast<uint64_t>(step.integer("offset"));
  task.dtype = step.operand(0).dtype();
  task.x = step.operand(0).data;
  task.y = step.result(0).data;
  task.kept = step.result(1).data;
  step.pool().ranges(step.operand(0).elements(), kGrain, kTile,
                     [&](int64_t begin, int64_t end) { step.kernels().dropout(task, begin, end); });
  return nullptr;
}

Status execute(Op<Opcode::DropoutGrad>, Step& step) {
  DropoutTask task;
  task.p = step.real("p");
  if (Status status = check_probability(task.p)) return status;
  task.dtype = step.operand(0).dtype();
  task.x = step.operand(0).data;
  task.kept = step.operand(1).data;
  task.y = step.result(0).data;
  step.pool().ranges(
      step.operand(0).elements(), 8 * kGrain, kTile,
      [&](int64_t begin, int64_t end) { step.kernels().dropout_grad(task, begin, end); });
  return nullptr;
}

}  // namespace trek::ref
