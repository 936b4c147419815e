// Vectors in words that say themselves when they are there (words.h): between thin products on a device.
// A word has one element of f32 or two of 16 bits.
#pragma once

#include "emulator/device/matrix_thin_tail.h"
#include "emulator/device/words.h"

namespace trek::device::thin {

#ifdef TREK_HAS_TAGS

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

// Whether what is in words of the row is of the trip before, and whether that is only some of it.
TREK_TILE bool is_carried(const Node& node) { return node.areas().trips_before != 0; }
TREK_TILE bool is_in_part(const Node& node) {
  return is_carried(node) && node.areas().left_words != node.matrix.thin.cut.k;
}

inline constexpr uint32_t kTwosOfThread = 4;  // pairs of words that a thread asks for at once

// Says so, by the last thread, whose warp mostly has no output.
TREK_TILE void inputs_came(const Task& task) {
  if (task.thread() == task.threads() - 1) trek_inputs_came();
}

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

using device::ask_until;  // of one word
// Asks until two words that have been asked for are of a trip. Where the block must leave, they may be anything.
TREK_TILE void ask_until(Twice& two, const std::byte* at, uint32_t tag) {
  TREK_ROLLED
  for (uint32_t spins = 1; !two.is_of(tag); ++spins) {
    if (spins % kPatience == 0 && trek_leaves()) break;
    two = ask_twice(at);
  }
}
// The trip that a row's words are of.
TREK_TILE uint32_t tag_of_row(const Node& node) { return trek_tag() - node.areas().trips_before; }

// Calls put(w, value, value of w + 1) for every even word w of a row, by the thread that asked for it, once both are there.
template <class Put>
TREK_TILE void gather(const Task& task, const Work& work, uint32_t words, Put put) {
  const std::byte* from = work.at(work.node.areas().left);
  const uint32_t tag = tag_of_row(work.node);
  const uint32_t twos = words / 2;
  TREK_ROLLED
  for (uint32_t first = task.thread(); first < twos; first += kTwosOfThread * task.threads()) {
    Twice two[kTwosOfThread];
    const auto number = [&](uint32_t i) TREK_TILE_LAMBDA { return first + i * task.threads(); };
    const auto at = [&](uint32_t i)
                        TREK_TILE_LAMBDA { return from + size_t{2 * kWord} * number(i); };
    TREK_UNROLLED
    for (uint32_t i = 0; i < kTwosOfThread; ++i)
      two[i] = number(i) < twos ? ask_twice(at(i)) : Twice{};
    TREK_UNROLLED
    for (uint32_t i = 0; i < kTwosOfThread; ++i) {
      if (number(i) >= twos) continue;
      ask_until(two[i], at(i), tag);
      put(2 * number(i), static_cast<uint32_t>(two[i].word[0]),
          static_cast<uint32_t>(two[i].word[1]));
    }
  }
}
// A row of f32 of which a thread has no more than two elements, asked for at once and put where it is staged later:
// instructions that find that a thread has no others stand in the way.
class AskedTwos {
 public:
  // `asks`: it is in words.
  TREK_TILE_MEMBER AskedTwos(const Task& task, const Work& work, uint32_t tag, bool asks = true)
      : tag_(tag), k_(2 * task.thread()), has_(asks && k_ < work.cut().k) {
    if (!has_) return;
    at_ = work.at(work.node.areas().left) + size_t{kWord} * k_;
    two_ = ask_twice(at_);
  }
  TREK_TILE_MEMBER void put(const Task& task, const Work& work) const {
    if (!has_) return;
    Twice two = two_;
    ask_until(two, at_, tag_);
    *task.shared<Aliased<uint64_t>>(row_place(work, k_)) =
        two.word[1] << 32 | static_cast<uint32_t>(two.word[0]);
  }

 private:
  uint32_t tag_;
  uint32_t k_;
  bool has_;
  const std::byte* at_ = nullptr;
  Twice two_ = {};
};

// Of a row of f32 that has some words of the trip before: asks for all else, which nothing in the loop writes; not on its
// first trip, when all is as it lies.
TREK_TILE void ask_rest(const Task& task, const Work& work) {
  if (!is_in_part(work.node) || trek_is_first_trip()) return;
  const uint32_t begin = work.node.areas().left_begin;
  const uint32_t end = begin + work.node.areas().left_words;
  TREK_ROLLED
  for (uint32_t k = 4 * task.thread(); k < work.cut().k; k += 4 * task.threads()) {
    const std::byte* from = work.left + size_t{4} * k;
    if (k + 4 <= begin || k >= end) {
      copy<16>(task, row_place(work, k), from);
      continue;
    }
    TREK_ROLLED
    for (uint32_t e = k; e < k + 4; ++e, from += 4)
      if (e < begin || e >= end) copy<4>(task, row_place(work, e), from);
  }
}
// And behind that the words.
TREK_TILE void bring_part(const Task& task, const Work& work) {
  const Areas& areas = work.node.areas();
  const uint32_t i = task.thread();
  if (i < areas.left_words) {
    const std::byte* from = work.at(areas.left) + size_t{kWord} * i;
    uint64_t word = ask_once(from);
    ask_until(word, from, tag_of_row(work.node));
    *task.shared<Aliased<uint32_t>>(row_place(work, areas.left_begin + i)) =
        static_cast<uint32_t>(word);
  }
}

// The element of number `place` in its word, as a float.
TREK_TILE float from_word(DType type, uint32_t value, int64_t place) {
  if (type == DType::f32) return as_float(value);
  const auto half = static_cast<uint16_t>(place % 2 == 0 ? value : value >> 16);
  if (type == DType::bf16) return as_float(uint32_t{half} << 16);
  return semantics::widen(F16{half});
}

// Calls put(k, element k and the one behind it, as floats) for all elements of a row of n, each by one thread.
template <class Put>
TREK_TILE void gather_row(const Task& task, const Work& work, DType type, uint32_t n, Put put) {
  const uint32_t each = in_word(type);
  gather(task, work, n / each, [&](uint32_t w, uint32_t low, uint32_t high) TREK_TILE_LAMBDA {
    if (each == 1) {
      put(w, as_float(low), as_float(high));
    } else {
      put(2 * w, from_word(type, low, 0), from_word(type, low, 1));
      put(2 * w + 2, from_word(type, high, 0), from_word(type, high, 1));
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
    at_ = work.at(areas.beside) + kWord * (place_ / in_word(type_));
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

// All else that a tail has beside the sum, which nothing writes where the row comes in words: asked for before the row, and
// put where the tail finds it once all copies have come. Of products that a program joins it is nothing: what these have is
// written, and asked for behind the wait.
class AskedTails {
 public:
  TREK_TILE_MEMBER void ask(const Task& task, const Work& work) {
    if (work.is_group() || task.thread() >= work.columns) return;
    const Output output = output_of(work, work.columns, 0, task.thread());
    each_asked(work, [&](uint32_t s, const TailStep step, const Operand& from) TREK_TILE_LAMBDA {
      ask_one(task, s, work.memory(from), static_cast<DType>(from.dtype), beside_of(step, output));
    });
  }
  TREK_TILE_MEMBER void put(const Task& task, const Work& work) const {
    if (work.is_group() || task.thread() >= work.columns) return;
    const Output output = output_of(work, work.columns, 0, task.thread());
    each_asked(work, [&](uint32_t s, const TailStep step, const Operand& from) TREK_TILE_LAMBDA {
      put_one(task, s, static_cast<DType>(from.dtype), beside_of(step, output));
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
#ifdef TREK_SPECIALISED
  // Left in a register as it comes: whatever is done with it waits for memory.
  TREK_TILE_MEMBER void ask_one(const Task& /*task*/, uint32_t s, const std::byte* from, DType type,
                                int64_t place) {
    raw_[s] =
        type == DType::f32 ? read<uint32_t>(from, place) : uint32_t{read<uint16_t>(from, place)};
  }
  TREK_TILE_MEMBER void put_one(const Task& task, uint32_t s, DType type, int64_t /*place*/) const {
    *task.shared<float>(beside_at(task, s)) = from_word(type, raw_[s], 0);
  }
  uint32_t raw_[kMaxTail] = {};
#else
  // Where steps are looked up one by one, registers for them would be in memory: the word that it is in is copied.
  TREK_TILE_MEMBER static void ask_one(const Task& task, uint32_t s, const std::byte* from,
                                       DType type, int64_t place) {
    copy<4>(task, beside_at(task, s), from + 4 * (place / in_word(type)));
  }
  TREK_TILE_MEMBER static void put_one(const Task& task, uint32_t s, DType type, int64_t place) {
    if (type == DType::f32) return;
    const uint32_t at = beside_at(task, s);
    *task.shared<float>(at) = from_word(type, *task.shared<Aliased<uint32_t>>(at), place);
  }
#endif
};

// Writes an output's word; of two of 16 bits the first's thread does, so all threads of a warp call it.
TREK_TILE void give_in_words(const Work& work, bool has, int64_t element, float value) {
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
    give_word(work.at(work.node.areas().result) + kWord * (element / in_word(type)), trek_tag(),
              bits);
}

// The same of several products that a program joins, whose results in words are of f32.
TREK_TILE void give_word_of_group(const Work& work, int64_t element, float value) {
  give_word(work.at(work.node.areas().result) + kWord * element, trek_tag(), bits_of(value));
}

#else

// Elsewhere there are none.
TREK_TILE void give_word_of_group(const Work& /*work*/, int64_t /*element*/, float /*value*/) {}
TREK_TILE bool has_tagged_left(const Node& /*node*/) { return false; }
TREK_TILE bool gives_tagged(const Node& /*node*/) { return false; }
TREK_TILE bool is_carried(const Node& /*node*/) { return false; }
TREK_TILE bool is_in_part(const Node& /*node*/) { return false; }
TREK_TILE bool trek_is_first_trip() { return false; }
TREK_TILE void ask_rest(const Task& /*task*/, const Work& /*work*/) {}
TREK_TILE void bring_part(const Task& /*task*/, const Work& /*work*/) {}
TREK_TILE uint32_t tag_of_row(const Node& /*node*/) { return 0; }
class AskedTwos {
 public:
  TREK_TILE_MEMBER AskedTwos(const Task& /*task*/, const Work& /*work*/, uint32_t /*tag*/) {}
  TREK_TILE_MEMBER void put(const Task& /*task*/, const Work& /*work*/) const {}
};
TREK_TILE void inputs_came(const Task& /*task*/) {}
template <class Put>
TREK_TILE void gather_row(const Task& /*task*/, const Work& /*work*/, DType /*type*/,
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
TREK_TILE void gather(const Task& /*task*/, const Work& /*work*/, uint32_t /*words*/, Put /*put*/) {
}
TREK_TILE void give_in_words(const Work& /*work*/, bool /*has*/, int64_t /*element*/,
                             float /*value*/) {}

#endif

}  // namespace trek::device::thin
