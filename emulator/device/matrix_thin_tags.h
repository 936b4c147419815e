// Vectors in words that say themselves when they are there (words.h): between thin products of compiled code on a device.
// A word has one element of f32 or two of 16 bits.
#pragma once

#include "emulator/device/matrix_thin_tail.h"
#include "emulator/device/words.h"

namespace trek::device::thin {

#if defined(TREK_SPECIALISED) && defined(__CUDA__)

// Whether the left operand comes in words, or what a row is made of; an operand of the tail of one that does; and whether the
// result goes to some.
TREK_TILE bool has_tagged_left(const Node& node) {
  return node.areas_at != 0 && node.areas().left != Areas::kNone;
}
TREK_TILE bool is_tagged_beside(const Node& node, uint32_t operand) {
  return node.areas().beside != Areas::kNone && node.areas().beside_operand == operand;
}
TREK_TILE bool gives_tagged(const Node& node) {
  return node.areas_at != 0 && node.areas().result != Areas::kNone;
}

TREK_TILE void inputs_came() { trek_inputs_came(); }

inline constexpr uint32_t kTwosOfThread = 4;  // pairs of words that a thread asks for at once

struct Twice {
  uint64_t word[2];
  TREK_TILE_MEMBER bool is_of(uint32_t tag) const {
    return tag_of(word[0]) == tag && tag_of(word[1]) == tag;
  }
};
TREK_TILE Twice ask_twice(const std::byte* at) {
  Twice two;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(two.word[0]), "=l"(two.word[1])
               : "l"(at)
               : "memory");
  return two;
}

// Calls put(w, value, value of w + 1) for every even word w of a row, by the thread that asked for it, once both are
// there. Where the block must leave, they may be anything.
template <class Put>
TREK_TILE void gather(const Task& task, const std::byte* from, uint32_t words, Put put) {
  const uint32_t tag = trek_tag();
  const uint32_t twos = words / 2;
  TREK_ROLLED
  for (uint32_t first = task.thread(); first < twos; first += kTwosOfThread * task.threads()) {
    Twice two[kTwosOfThread];
    const auto at = [&](uint32_t i) TREK_TILE_LAMBDA { return first + i * task.threads(); };
    TREK_UNROLLED
    for (uint32_t i = 0; i < kTwosOfThread; ++i)
      if (at(i) < twos) two[i] = ask_twice(from + size_t{2 * kWord} * at(i));
    TREK_UNROLLED
    for (uint32_t i = 0; i < kTwosOfThread; ++i) {
      if (at(i) >= twos) continue;
      TREK_ROLLED
      for (uint32_t spins = 1; !two[i].is_of(tag); ++spins) {
        if (spins % kPatience == 0 && trek_leaves()) break;
        two[i] = ask_twice(from + size_t{2 * kWord} * at(i));
      }
      put(2 * at(i), static_cast<uint32_t>(two[i].word[0]), static_cast<uint32_t>(two[i].word[1]));
    }
  }
}

// The element of number `place` in its word, as a float.
TREK_TILE float from_word(DType type, uint32_t value, int64_t place) {
  if (type == DType::f32) return as_float(value);
  const auto half = static_cast<uint16_t>(place % 2 == 0 ? value : value >> 16);
  if (type == DType::bf16) return as_float(uint32_t{half} << 16);
  return semantics::widen(F16{half});
}

// Calls put(k, element k, as a float) for all elements of a row of n, each by one thread.
template <class Put>
TREK_TILE void gather_row(const Task& task, const std::byte* from, DType type, uint32_t n,
                          Put put) {
  const uint32_t each = in_word(type);
  gather(task, from, n / each, [&](uint32_t w, uint32_t low, uint32_t high) TREK_TILE_LAMBDA {
    if (each == 1) {
      put(w, as_float(low));
      put(w + 1, as_float(high));
    } else {
      put(2 * w, from_word(type, low, 0));
      put(2 * w + 1, from_word(type, low, 1));
      put(2 * w + 2, from_word(type, high, 0));
      put(2 * w + 3, from_word(type, high, 1));
    }
  });
}

// What a tail has at an output's element, asked for before the row and waited for behind it.
class TaggedBeside {
 public:
  TREK_TILE_MEMBER TaggedBeside(const Task& task, const Work& work)
      : has_(work.node.areas().beside != Areas::kNone && task.thread() < work.columns) {
    if (!has_) return;
    const Areas& areas = work.node.areas();
    place_ = output_of(work, work.columns, 0, task.thread()).element;
    type_ = static_cast<DType>(work.node.operand(areas.beside_operand).dtype);
    at_ = task.at(areas.beside) + kWord * (place_ / in_word(type_));
    word_ = ask_once(at_);
  }
  // Puts it where the tail finds it.
  TREK_TILE_MEMBER void put(const Task& task, const Work& work) {
    if (!has_) return;
    ask_until(word_, at_, trek_tag());
    each_step(work, [&](uint32_t s, const TailStep step) TREK_TILE_LAMBDA {
      if (is_operand(step) && is_tagged_beside(work.node, step.index))
        *task.shared<float>(beside_at(task, s)) =
            from_word(type_, static_cast<uint32_t>(word_), place_);
    });
  }

 private:
  bool has_;
  DType type_ = DType::f32;
  int64_t place_ = 0;
  const std::byte* at_ = nullptr;
  uint64_t word_ = 0;
};

// All else that a tail has beside the sum, which nothing writes where the row comes in words: asked for before the row,
// and left as it comes until that is there, since whatever is done with it waits for memory. Of products that a program
// joins it is nothing: what these have is written, and asked for behind the wait.
class AskedTails {
 public:
  TREK_TILE_MEMBER void ask(const Task& task, const Work& work) {
    if (work.is_group() || task.thread() >= work.columns) return;
    const Output output = output_of(work, work.columns, 0, task.thread());
    each_asked(work, [&](uint32_t s, const TailStep step, const Operand& from) TREK_TILE_LAMBDA {
      const int64_t place = beside_of(step, output);
      raw_[s] = static_cast<DType>(from.dtype) == DType::f32
                    ? read<uint32_t>(work.memory(from), place)
                    : uint32_t{read<uint16_t>(work.memory(from), place)};
    });
  }
  // Puts it where the tail finds it.
  TREK_TILE_MEMBER void put(const Task& task, const Work& work) const {
    if (work.is_group() || task.thread() >= work.columns) return;
    each_asked(work,
               [&](uint32_t s, const TailStep /*step*/, const Operand& from) TREK_TILE_LAMBDA {
                 *task.shared<float>(beside_at(task, s)) =
                     from_word(static_cast<DType>(from.dtype), raw_[s], 0);
               });
  }

 private:
  template <class Act>
  TREK_TILE_MEMBER static void each_asked(const Work& work, Act act) {
    each_step(work, [&](uint32_t s, const TailStep step) TREK_TILE_LAMBDA {
      if (is_operand(step) && !is_tagged_beside(work.node, step.index))
        act(s, step, work.node.operand(step.index));
    });
  }
  uint32_t raw_[kMaxTail] = {};
};

// Writes an output's word; of two of 16 bits the first's thread does, so all threads of a warp call it.
TREK_TILE void give_in_words(const Task& task, const Work& work, bool has, int64_t element,
                             float value) {
  const auto type = static_cast<DType>(work.node.result(0).dtype);
  uint32_t bits = bits_of(value);
  if (type != DType::f32) {
    const uint32_t half = type == DType::bf16 ? uint32_t{semantics::narrow<BF16>(value).bits}
                                              : uint32_t{semantics::narrow<F16>(value).bits};
    const auto next =
        static_cast<uint32_t>(__nvvm_shfl_sync_down_i32(0xFFFFFFFF, static_cast<int>(half), 1, 31));
    bits = half | next << 16;
    has = has && element % 2 == 0;
  }
  if (has)
    give_word(task.at(work.node.areas().result) + kWord * (element / in_word(type)), trek_tag(),
              bits);
}

// The same of several products that a program joins, whose results in words are of f32.
TREK_TILE void give_word_of_group(const Task& task, const Work& work, int64_t element,
                                  float value) {
  give_word(task.at(work.node.areas().result) + kWord * element, trek_tag(), bits_of(value));
}

#else

// Elsewhere there are none.
TREK_TILE void give_word_of_group(const Task& /*task*/, const Work& /*work*/, int64_t /*element*/,
                                  float /*value*/) {}
TREK_TILE bool has_tagged_left(const Node& /*node*/) { return false; }
TREK_TILE bool gives_tagged(const Node& /*node*/) { return false; }
TREK_TILE void inputs_came() {}
template <class Put>
TREK_TILE void gather_row(const Task& /*task*/, const std::byte* /*from*/, DType /*type*/,
                          uint32_t /*n*/, Put /*put*/) {}
class TaggedBeside {
 public:
  TREK_TILE_MEMBER TaggedBeside(const Task& /*task*/, const Work& /*work*/) {}
  TREK_TILE_MEMBER void put(const Task& /*task*/, const Work& /*work*/) {}
};
class AskedTails {
 public:
  TREK_TILE_MEMBER void ask(const Task& /*task*/, const Work& /*work*/) {}
  TREK_TILE_MEMBER void put(const Task& /*task*/, const Work& /*work*/) const {}
};
template <class Put>
TREK_TILE void gather(const Task& /*task*/, const std::byte* /*from*/, uint32_t /*words*/,
                      Put /*put*/) {}
TREK_TILE void give_in_words(const Task& /*task*/, const Work& /*work*/, bool /*has*/,
                             int64_t /*element*/, float /*value*/) {}

#endif

}  // namespace trek::device::thin
