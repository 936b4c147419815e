// The units by kind, each called from one place, and what a fault says.
#pragma once

#include "emulator/device/control.h"
#include "emulator/device/cumsum.h"
#include "emulator/device/execute.h"
#include "emulator/device/matrix.h"
#include "emulator/device/matrix_f32.h"
#include "emulator/device/matrix_gemv.h"
#include "emulator/device/matrix_narrow.h"
#include "emulator/device/matrix_shallow.h"
#include "emulator/device/matrix_small.h"
#include "emulator/device/matrix_tensor.h"
#include "emulator/device/matrix_tensor_90a.h"
#include "emulator/device/matrix_thin_recurrent.h"
#include "emulator/device/move.h"
#include "emulator/device/order.h"
#include "emulator/device/program.h"
#include "emulator/device/quick_move.h"
#include "emulator/device/random.h"
#include "emulator/device/reduce.h"
#include "emulator/device/row_phases.h"
#include "emulator/device/softmax.h"
#include "emulator/device/train.h"
#ifdef TREK_SPECIALISED
#include "emulator/device/matrix_panels.h"
#else
#include "emulator/device/quick.h"
#include "emulator/device/quick_rows.h"
#endif

namespace trek::device {

namespace dispatch_detail {

// A kind that the node says, or one that is known where code is made for one node: clang then emits a single case of a
// switch, where optimisation would have had to find the others unreachable in 26 functions that hold all units.
inline constexpr Kind kAnyKind = Kind::engine;  // which has no unit
#define TREK_KIND_OF(known, task) \
  ((known) == kAnyKind ? static_cast<Kind>((task).node().kind) : (known))

// Units without arithmetic are one function, which keeps the kernel's own code and its calls few.
template <Kind kKind = kAnyKind>
TREK_UNIT_CALL void run_move(Task task, int64_t first, int64_t count) {
#if defined(TREK_SPECIALISED) && defined(__CUDA__)
  if (static_cast<Quick>(task.node().quick) == Quick::move)
    return run_quick_move(
        task, task.node(), first, count,
        [&](const Operand& operand) { return task.memory(operand); },
        [](uint32_t turn) { return turn == 0; });
#endif
  switch (TREK_KIND_OF(kKind, task)) {
    case Kind::move:
      return move(task, first, count);
    case Kind::concat:
      return concat(task, first, count);
    case Kind::pad:
      return pad(task, first, count);
    case Kind::gather:
      return gather(task, first, count);
    case Kind::fill:
      return fill(task, first, count);
    case Kind::iota:
      return iota(task, first, count);
    case Kind::one_hot:
      return one_hot(task, first, count);
    case Kind::update:
      return update(task, first, count);
    case Kind::scatter:
      return scatter(task, first, count);
    case Kind::exchange:
      return exchange(task);
    default:
      return assert_finite(task);
  }
}

template <Kind kKind = kAnyKind>
TREK_UNIT __attribute__((always_inline)) void run_unit(Task task, int64_t first, int64_t count) {
  const Form form = form_of(static_cast<DType>(task.node().compute));
  switch (TREK_KIND_OF(kKind, task)) {
    case Kind::program:
      return run_elements(task, first, count);
    case Kind::move:
    case Kind::concat:
    case Kind::pad:
    case Kind::gather:
    case Kind::fill:
    case Kind::iota:
    case Kind::one_hot:
    case Kind::update:
    case Kind::scatter:
    case Kind::exchange:
    case Kind::assert_finite:
      return run_move<kKind>(task, first, count);
    case Kind::reduce:
      if constexpr (kFull) {
        if (form == Form::real64) return reduce<double>(task, first, first + count);
        if (form == Form::sint) return reduce<int64_t>(task, first, first + count);
        if (form == Form::uint) return reduce<uint64_t>(task, first, first + count);
      }
      return reduce<float>(task, first, first + count);
    case Kind::phases:
      return run_phases(task, first, first + count);
    case Kind::arg:
      return find_best(task, first, first + count);
    case Kind::softmax:
      if constexpr (kFull)
        if (form == Form::real64) return softmax<double>(task, first, first + count);
      return softmax<float>(task, first, first + count);
    case Kind::cumsum:
      if constexpr (kFull) {
        if (form == Form::real64) return cumsum<double>(task, first, first + count);
        if (form != Form::real32) return cumsum<uint64_t>(task, first, first + count);
      }
      return cumsum<float>(task, first, first + count);
#ifndef TREK_FOR_CHAINS
    case Kind::cross_entropy:
      if constexpr (kFull)
        if (form == Form::real64) return cross_entropy<double>(task, first, count);
      return cross_entropy<float>(task, first, count);
    case Kind::clip:
      if constexpr (kFull)
        if (form == Form::real64) return clip<double>(task);
      return clip<float>(task);
#endif
    case Kind::order:
      return order(task, first, count);
    case Kind::permutation:
      return permutation(task);
#ifndef TREK_FOR_CHAINS  // see is_for_chains()
    case Kind::matrix:
#if defined(TREK_SPECIALISED) && !defined(__CUDA__)
      if (form == Form::real64) return multiply_panels<double>(task, first);
      if (form == Form::real32) return multiply_panels<float>(task, first);
      if (size_of(static_cast<DType>(task.node().compute)) == 8)
        return multiply_panels<uint64_t>(task, first);
      return multiply_panels<uint32_t>(task, first);
#else
#if !defined(__CUDA__) || defined(TREK_SPECIALISED)
      // The resident kernel has functions of their own for these: execute_thin(), execute_stays().
      if (thin::stays(task.node())) {
        OneStaying of(task.node(), first, {count}, [] { return await_inputs(); });
        return multiply_staying(task, of, task.context().arena);
      }
      if (static_cast<Product>(task.node().matrix.product) == Product::thin)
        return multiply_tile_thin(task, task.node(), first, count, task.context().arena,
                                  [] { return await_inputs(); });
#endif
#ifdef __CUDA__
      if (static_cast<Product>(task.node().matrix.product) == Product::tensor)
        return multiply_tile_tensor(task, first);
      if (static_cast<Product>(task.node().matrix.product) == Product::small)
        return multiply_tile_small(task, first);
#ifdef TREK_SPECIALISED
      // Else there is a function of its own for these: execute_in_order().
      if (static_cast<Product>(task.node().matrix.product) == Product::narrow)
        return multiply_tile_narrow(task, first);
      if (static_cast<Product>(task.node().matrix.product) == Product::shallow)
        return multiply_tile_shallow(task, first);
      if (is_in_f32_parts(task.node())) return multiply_tile_f32(task, first);
#endif
#endif
      if constexpr (kFull) {
        const bool wide = size_of(static_cast<DType>(task.node().compute)) == 8;
        if (form == Form::real64) return multiply_tile<double>(task, first);
        if (form != Form::real32)
          return wide ? multiply_tile<uint64_t>(task, first) : multiply_tile<uint32_t>(task, first);
      }
      return multiply_tile<float>(task, first);
#endif
    case Kind::optimizer:
      if constexpr (kFull)
        if (form == Form::real64) return optimize<double>(task, first, count);
      return optimize<float>(task, first, count);
#endif
    case Kind::random:
      if constexpr (kFull)
        if (form == Form::real64) return generate<double>(task, first, count);
      return generate<float>(task, first, count);
    case Kind::dropout:
      if constexpr (kFull)
        if (form == Form::real64) return drop<double>(task, first, count);
      return drop<float>(task, first, count);
    case Kind::trap:
      return task.fail(-1);
    case Kind::engine:
      return;
#ifdef TREK_FOR_CHAINS
    default:
      return;
#endif
  }
}

// Of an instruction that says where a box stands: the first axis that it leaves, and its index there.
TREK_UNIT void describe_box(const Task& task) {
  const Move& move = task.node().move;
  for (uint32_t i = 0; i < move.rank; ++i) {
    const auto at = static_cast<int64_t>(task.attribute(i));
    if (at >= 0 && at <= task.node().number(move.rank + i)) continue;
    task.fault().value = at;
    task.fault().extra = i;
    return;
  }
}

// What was met at fault->element. By one thread, while operands are as the unit saw them: no unit that may
// trap at an element writes over what it checked.
template <Kind kKind = kAnyKind>
TREK_UNIT_CALL void describe_fault(Task task) {
  const Node& node = task.node();
  Fault& fault = task.fault();
  isa::TrapCode code = isa::TrapCode::DivideByZero;  // of a step of a program
  switch (TREK_KIND_OF(kKind, task)) {
    case Kind::move:
    case Kind::update:
    case Kind::exchange:
      code = isa::TrapCode::IndexOutOfRange;
      describe_box(task);
      break;
    case Kind::gather:
    case Kind::scatter:
    case Kind::one_hot:
      code = isa::TrapCode::IndexOutOfRange;
      fault.value = static_cast<int64_t>(
          operand_of(task, static_cast<Kind>(node.kind) == Kind::one_hot ? 0 : 1, fault.element));
      fault.extra = node.move.size;
      break;
    case Kind::cross_entropy: {
      const bool only_gradient = static_cast<Opcode>(node.opcode) == Opcode::CrossEntropyGrad;
      code = isa::TrapCode::IndexOutOfRange;
      fault.value = static_cast<int64_t>(operand_of(task, only_gradient ? 2 : 1, fault.element));
      fault.extra = node.lines.n;
      break;
    }
    case Kind::optimizer:
      code = isa::TrapCode::InvalidArgument;
      fault.value = static_cast<int64_t>(task.attribute(5));
      break;
    case Kind::dropout:
      code = isa::TrapCode::InvalidArgument;
      fault.value = static_cast<int64_t>(
          cast(static_cast<DType>(node.compute), DType::f64, task.attribute(0)));
      break;
    case Kind::assert_finite:
      code = isa::TrapCode::NotFinite;
      fault.value = static_cast<int64_t>(
          cast(static_cast<DType>(node.type), DType::f64,
               node.flag != 0 ? task.attribute(0) : operand_of(task, 0, fault.element)));
      break;
    case Kind::trap:
      code = isa::TrapCode::Explicit;
      break;
    default:
      break;
  }
  fault.code = static_cast<uint32_t>(code);
}

#undef TREK_KIND_OF

}  // namespace dispatch_detail

#ifdef TREK_SM90A
// A tile of a product whose operands have tensor maps. The sync at the end is the caller's.
TREK_TILE void multiply_copied(const Task& task, int64_t tile) {
  tensor::begin_tile(task);
  if constexpr (!kSpecialised)  // where code is made for one node that is execute_parts()
    if (static_cast<Product>(task.node().matrix.product) == Product::tensor)
      return multiply_tile_tensor_90a(task);
  multiply_tile_f32_90a(task, tile);
}
#endif

TREK_UNIT void begin_tasks(const Block& block) {
  auto* kept = reinterpret_cast<Aliased<uint64_t>*>(block.shared + shared_at::kKept);
  for (uint32_t i = 0; i < (shared_at::kSlots - shared_at::kKept) / 8; ++i) kept[i] = 0;
}

#ifndef TREK_SPECIALISED
TREK_UNIT void execute_unit(const Block& block, const Node& node, int64_t first, int64_t count,
                            const Environment& environment, Fault* fault) {
  const Task task(block);
  begin_task(task, block, node, environment, fault);
  if (!thin::leaves_places(node)) forget_places(task);
  task.sync();
  // A node that is one task counts in the terms of its unit.
  if (static_cast<Tiling>(node.tiling) == Tiling::whole) {
    first = 0;
    count = node.whole;
  }
  dispatch_detail::run_unit(task, first, count);
  task.sync();
}
TREK_UNIT_CALL void describe(const Block& block) {
  const Task task(block);
  if (task.thread() == 0) dispatch_detail::describe_fault(task);
  task.sync();
}

TREK_UNIT void execute(const Block& block, const Node& node, int64_t first, int64_t count,
                       const Environment& environment, Fault* fault) {
  execute_unit(block, node, first, count, environment, fault);
  // Not through the context, which a thread that is ahead may already have written for its next task.
  if (is_fault(*fault)) describe(block);
}

#else
// execute() of the node that code is made for, of a kind; `scalars` are its scalars in register form. In line, so that what
// the caller knows of the node is known here.
template <Kind kKind>
TREK_TILE void execute(const Node& node, const Context& context, std::byte* shared,
                       const uint64_t* scalars, int64_t first, int64_t count) {
  const Task task(context, shared, scalars);
  Fault* fault = context.fault;
  if (!thin::leaves_places(node)) forget_places(task);
  if (static_cast<Tiling>(node.tiling) == Tiling::whole) {
    first = 0;
    count = node.whole;
  }
#ifdef TREK_SM90A
  // A product whose operands have tensor maps is a unit of its own on a Hopper.
  if constexpr (kKind == Kind::matrix)
    if (is_copied(node)) return multiply_copied(task, first);
#endif
  dispatch_detail::run_unit<kKind>(task, first, count);
  // The frame has the threads meet, once more where a fault is looked at.
  if (!may_trap(node)) return;
  task.sync();
  if (!is_fault(*fault)) return;
  if (task.thread() == 0) dispatch_detail::describe_fault<kKind>(task);
  task.sync();
}

#ifdef TREK_SM90A
// The same of a product by tensor cores whose operands have tensor maps, in parts of so many columns or, transposed, rows.
template <uint32_t kColumns, bool kTransposed>
TREK_TILE void execute_parts(const Context& context, std::byte* shared, const uint64_t* scalars) {
  const Task task(context, shared, scalars);
  forget_places(task);
  tensor::begin_tile(task);
  tensor::multiply_parts_90a<kColumns, kTransposed>(task);
}
#endif
#endif

#if defined(TREK_SM90A) && !defined(TREK_SPECIALISED)
TREK_UNIT __attribute__((always_inline)) void execute_copied(const Block& block, const Node& node,
                                                             int64_t tile,
                                                             const Environment& environment) {
  const Task task(block);
  begin_task(task, block, node, environment, nullptr);
  forget_places(task);
  multiply_copied(task, tile);
}
#endif
#ifdef TREK_SM90A
template <class Next>
TREK_UNIT void bring_copied(Next next) {
  tensor::bring_tile(next);
}
TREK_UNIT void say_late_came(const tensor::Brought& brought) {
  if (tensor::adds_begun(brought) && !tensor::is_ended(brought)) tensor::say_come();
}
#endif

#ifndef TREK_SPECIALISED
template <class Ready>
TREK_TILE bool thin_is_ready(const Block& block, const Node& node, const Environment& environment,
                             Ready ready) {
  if (!ready()) return false;
  if (node.matrix.tail_steps == Matrix::kNoTail) {
    const Task task(block);
    begin_task(task, block, node, environment, nullptr);
    task.sync();  // the tail's operands are asked for ahead of the product's own
  }
  return true;
}

#ifdef __CUDA__
template <class Ready>
TREK_TILE void execute_in_order(const Block& block, const Node& node, int64_t tile,
                                const Environment& environment, Ready ready) {
  const Task task(block);
  if (!waits_interpreted(node) && !ready()) return;
  begin_task(task, block, node, environment, nullptr);
  forget_places(task);
  task.sync();
  if (static_cast<Product>(node.matrix.product) == Product::narrow)
    multiply_tile_narrow(task, tile);
  else
    multiply_tile_f32(task, tile);
}

TREK_TILE void execute_early(const Block& block, const Node& node, int64_t first, int64_t count,
                             const Environment& environment, Fault* fault) {
  const Task task(block);
  begin_task(task, block, node, environment, fault);
  forget_places(task);
  task.sync();
  if (static_cast<Kind>(node.kind) == Kind::optimizer)
    optimize<float>(task, first, count);
  else
    made_rows::cross_entropy(task, first, count);
  task.sync();
}
#endif

template <class Ready>
TREK_TILE void execute_thin(const Block& block, const Node& node, int64_t tile,
                            const Environment& environment, Ready ready) {
  multiply_tile_thin(Task(block), node, tile, 1, environment.arena,
                     [&] { return thin_is_ready(block, node, environment, ready); });
}

#ifdef TREK_FOR_CHAINS
template <bool kBf16, class Tasks>
TREK_TILE void execute_gemv(const Block& block, Tasks& tasks, std::byte* arena) {
  multiply_gemv<kBf16>(Task(block), tasks, arena);
}
#endif
template <class Tasks>
TREK_TILE void execute_stays(const Block& block, Tasks& tasks, std::byte* arena) {
  multiply_staying(Task(block), tasks, arena);
}
#ifdef TREK_SM90A
template <class Tasks>
TREK_TILE void execute_recurrent(const Block& block, Tasks& tasks, std::byte* arena) {
  multiply_recurrent(Task(block), tasks, arena);
}
#endif

template <Quick kQuick, class Turns>
TREK_UNIT void execute_quick(const Block& block, const Node& node, int64_t first, int64_t count,
                             const Environment& environment, Turns turns) {
  if constexpr (kQuick == Quick::move)
    run_quick_move(
        Task(block), node, first, count,
        [&](const Operand& operand) { return environment.arena + operand.offset; }, turns);
#ifdef __CUDA__
  else if constexpr (kQuick == Quick::rows) {
    forget_places(Task(block));
    run_quick_rows(block, node, first, count, environment.arena);
  }
#endif
  else
    run_quick<kQuick == Quick::calls>(block, node, first, count, environment.arena, turns);
}
#endif

}  // namespace trek::device
