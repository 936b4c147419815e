// Random tensors and dropout: an element is a function of key, offset and its index (isa/semantics/random.h).
// The four elements of a counter are made by one thread.
#pragma once

#include "emulator/device/train.h"
#include "isa/semantics/random.h"

namespace trek::device {

// Elements [first, first + count) of uniform, normal or bernoulli. Attributes: key, offset, then low and
// high, mean and std, or p, in f32 (f64 for f64).
template <typename C>
TREK_UNIT_CALL void generate(Task task, int64_t first, int64_t count) {
  const Node& node = task.node();
  const auto opcode = static_cast<Opcode>(node.opcode);
  const uint64_t key = semantics::seeded_key(task.attribute(0), task.context().seed);
  const uint64_t offset = task.attribute(1);
  const C a = train_detail::real_of<C>(task.attribute(2));
  const C b = train_detail::real_of<C>(task.attribute(3));
  const int64_t end = first + count;
  for (int64_t four = first / 4 + task.thread(); 4 * four < end; four += task.threads()) {
    const semantics::RandomWords words =
        semantics::philox(key, offset + static_cast<uint64_t>(four));
    for (int e = 0; e < 4; e += 2) {
      C even;
      C odd;
      if (opcode == Opcode::Normal) {
        const auto pair = semantics::normal<C>(words.lane[e], words.lane[e + 1], a, b);
        even = pair.even;
        odd = pair.odd;
      } else if (opcode == Opcode::Uniform) {
        even = semantics::uniform<C>(words.lane[e], a, b);
        odd = semantics::uniform<C>(words.lane[e + 1], a, b);
      } else {
        const float p = static_cast<float>(a);
        even = semantics::bernoulli(words.lane[e], p) ? C(1) : C(0);
        odd = semantics::bernoulli(words.lane[e + 1], p) ? C(1) : C(0);
      }
      for (int o = 0; o < 2; ++o) {
        const int64_t i = 4 * four + e + o;
        if (i < first || i >= end) continue;
        const C value = o == 0 ? even : odd;
        const uint64_t bits =
            opcode == Opcode::Bernoulli ? (value != C(0) ? 1u : 0u) : uint64_t{bits_of(value)};
        give_result(task, 0, i, bits);
      }
    }
  }
}

// Elements [first, first + count) of dropout, or of its gradient. Attributes: p as C; key, offset.
template <typename C>
TREK_UNIT_CALL void drop(Task task, int64_t first, int64_t count) {
  using namespace train_detail;  // NOLINT(google-build-using-namespace)
  const Node& node = task.node();
  const bool gradient = static_cast<Opcode>(node.opcode) == Opcode::DropoutGrad;
  const C p = real_of<C>(task.attribute(0));
  if (!(p >= C(0) && p < C(1))) return task.fail(-1);
  const C scale = semantics::dropout_scale(p);
  const uint64_t key = gradient ? 0 : semantics::seeded_key(task.attribute(1), task.context().seed);
  const uint64_t offset = gradient ? 0 : task.attribute(2);
  const Operand x = node.operand(0);
  const Operand y = node.result(0);
  const int64_t end = first + count;
  for (int64_t four = first / 4 + task.thread(); 4 * four < end; four += task.threads()) {
    const semantics::RandomWords words =
        semantics::philox(key, offset + static_cast<uint64_t>(four));
    for (int e = 0; e < 4; ++e) {
      const int64_t i = 4 * four + e;
      if (i < first || i >= end) continue;
      const bool kept = gradient ? operand_of(task, 1, i) != 0
                                 : !semantics::bernoulli(words.lane[e], static_cast<float>(p));
      give_value<C>(task, y, i, kept ? value_of<C>(task, x, i) * scale : C(0));
      if (!gradient) write<uint8_t>(task.memory(node.result(1)), i, kept ? 1 : 0);
    }
  }
}

}  // namespace trek::device
