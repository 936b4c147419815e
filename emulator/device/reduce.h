// sum, mean, max, min, prod, norm2; argmax and argmin.
#pragma once

#include "emulator/device/reduce_order.h"
#include "emulator/device/strided_lines.h"
#include "isa/semantics/compare.h"

namespace trek::device {

TREK_UNIT Joining joining_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::Prod:
      return Joining::product;
    case Opcode::Max:
      return Joining::greatest;
    case Opcode::Min:
      return Joining::least;
    default:
      return Joining::sum;
  }
}

#ifdef __CUDA__
namespace rows {

// Whether a group's lines are rows of at most a tile, staged as floats: a warp joins one without a sync.
TREK_UNIT bool suits(const Task& task, const Group& group) {
  return group.n <= kTile && task.node().lines.across == 0 && shift_of(task.node()) == 2;
}
TREK_UNIT void join_rows(const Task& task, const Group& group) {
  const auto opcode = static_cast<Opcode>(task.node().opcode);
  const uint32_t lane = task.thread() % 32;
  TREK_ROLLED
  for (uint32_t l = task.thread() / 32; l < group.lines; l += team()) {
    const float sum =
        join_shared(task, opcode, shared_at::kValues + 4 * l * group.n, lane, group.n);
    if (lane == 0) task.shared<float>(reduce_at::kFirst)[l] = sum;
  }
  task.sync();
}

}  // namespace rows
#endif

// The terms of a group's lines joined: number l at reduce_at::kFirst.
template <typename C>
TREK_UNIT void join_group(const Task& task, const Group& group) {
  const auto opcode = static_cast<Opcode>(task.node().opcode);
#ifdef __CUDA__
  if constexpr (__is_same(C, float))
    if (rows::suits(task, group)) return rows::join_rows(task, group);
#endif
  reduce_group<C>(task, group, opcode == Opcode::Norm2 ? Term::square : Term::element,
                  joining_of(opcode), 1, reduce_at::kFirst);
}

// Lines [line, end).
template <typename C>
TREK_UNIT_CALL void reduce(Task task, int64_t line, int64_t end) {
#ifdef __CUDA__
  if constexpr (__is_same(C, float))
    if (task.node().lines.strided != 0) return rows::reduce(task, line, end);
#endif
  while (line < end) {
    const Group group = group_at(task.node(), line, end, 1, most_lines(task.node(), 1));
    const auto opcode = static_cast<Opcode>(task.node().opcode);
    if (group.n > 0) {
      if (is_whole(task.node(), 1)) stage(task, group, 1);
      task.sync();
      join_group<C>(task, group);
    }
    const Staged<C> mains{shared_at::kValues, shift_of(task.node())};
    for (uint32_t i = task.thread(); i < group.lines; i += task.threads()) {
      C value = C(opcode == Opcode::Prod ? 1 : 0);
      if (group.n > 0) value = task.shared<C>(reduce_at::kFirst)[i];
      if constexpr (semantics::kIsFloat<C>) {
        if (opcode == Opcode::Mean) value = value / static_cast<C>(task.node().lines.n);
        if (opcode == Opcode::Norm2) value = semantics::sqrt(value);
      }
      mains.put(task, i, value);
    }
    task.sync();
    deliver_range(task, line, group.lines);
    task.sync();
    line += group.lines;
  }
}

// ---- argmax, argmin ------------------------------------------------------------------------------

// The key of an element in register form, by which the greatest is looked for (isa/semantics/compare.h).
TREK_UNIT uint64_t key_of(Form form, uint64_t bits, bool least) {
  switch (form) {
    case Form::real32:
      return least ? semantics::least_key(as_float(bits)) : semantics::order_key(as_float(bits));
    case Form::real64:
      return least ? semantics::least_key(as_double(bits)) : semantics::order_key(as_double(bits));
    case Form::sint:
      return least ? semantics::least_key(static_cast<int64_t>(bits))
                   : semantics::order_key(static_cast<int64_t>(bits));
    default:
      return least ? semantics::least_key(bits) : semantics::order_key(bits);
  }
}

namespace arg_detail {
inline constexpr uint32_t kSeekers = 32;  // of a line
inline constexpr uint32_t kLines = 32;    // at once
inline constexpr uint32_t kKeys = shared_at::kWork;
inline constexpr uint32_t kPlaces = kKeys + kSeekers * kLines * 8;
}  // namespace arg_detail

// Lines [line, end). A thread seeks among every 32nd element; ascending, so that the first of equals stays.
TREK_UNIT_CALL void find_best(Task task, int64_t line, int64_t end) {
  using namespace arg_detail;  // NOLINT(google-build-using-namespace)
#ifdef __CUDA__
  if (task.node().lines.strided != 0) return rows::find_best(task, line, end);
#endif
  while (line < end) {
    const Group group = group_at(task.node(), line, end, 1, kLines);
    for (int64_t k = 0; k < task.node().lines.n; k += room_for(task.node(), 1)) {
      const Group part = part_of(task.node(), group, k, 1);
      stage(task, part, 1);
      task.sync();
      const bool least = static_cast<Opcode>(task.node().opcode) == Opcode::Argmin;
      const Form form = form_of(static_cast<DType>(task.node().type));
      const bool across = task.node().lines.across != 0;
      const uint32_t shift = shift_of(task.node());
      for (uint32_t t = task.thread(); t < group.lines * kSeekers; t += task.threads()) {
        uint64_t& best = task.shared<uint64_t>(kKeys)[t];
        const uint32_t l = t / kSeekers;
        for (uint32_t i = t % kSeekers; i < part.n; i += kSeekers) {
          const uint32_t at = across ? i * part.lines + l : l * part.n + i;
          const uint64_t bits = shift == 2 ? task.shared<Aliased<uint32_t>>(shared_at::kValues)[at]
                                           : task.shared<uint64_t>(shared_at::kValues)[at];
          const uint64_t key = key_of(form, bits, least);
          if ((k > 0 || i >= kSeekers) && key <= best) continue;
          best = key;
          task.shared<int64_t>(kPlaces)[t] = k + i;
        }
      }
      task.sync();
    }
    const uint64_t* keys = task.shared<uint64_t>(kKeys);
    const int64_t* places = task.shared<int64_t>(kPlaces);
    const int64_t n = task.node().lines.n;
    for (uint32_t l = task.thread(); l < group.lines; l += task.threads()) {
      uint32_t best = l * kSeekers;
      for (uint32_t t = best + 1; t < (l + 1) * kSeekers && t - l * kSeekers < n; ++t)
        if (keys[t] > keys[best] || (keys[t] == keys[best] && places[t] < places[best])) best = t;
      task.shared<int64_t>(shared_at::kValues)[l] = n == 0 ? 0 : places[best];
    }
    task.sync();
    deliver_range(task, line, group.lines);
    task.sync();
    line += group.lines;
  }
}

}  // namespace trek::device
