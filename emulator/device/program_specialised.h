// Micro-programs where code is made for one node (TREK_SPECIALISED): instead of an interpreter of their steps
// there are functions, which emulator/jit makes of the node's programs.
//
// A program gives the element `first + ahead` from the main value of that position. Elements that follow
// `first` as far as the next multiple of trek_together_N() lie evenly spaced in every operand that the program
// reads, so places are worked out for `first`, and a loop over `ahead` has no division in it.
#pragma once

#include "emulator/device/apply.h"
#include "emulator/device/index.h"
#include "emulator/device/shared.h"
#ifdef __CUDA__
#include "emulator/device/streamed.h"
#endif

#define TREK_PROGRAM(N)                                                                            \
  TREK_ON_DEVICE uint64_t trek_program_##N(std::byte* arena, const uint32_t* addresses,            \
                                           const uint64_t* scalars, int64_t* fault, int64_t first, \
                                           int64_t ahead, uint64_t main);                          \
  TREK_ON_DEVICE int64_t trek_together_##N();
#define TREK_STREAMED_PROGRAM(N)                                                            \
  TREK_ON_DEVICE uint64_t trek_streamed_program_##N(                                        \
      std::byte* arena, const uint32_t* addresses, const uint64_t* scalars, int64_t* fault, \
      int64_t first, int64_t ahead, const uint64_t* arrived);
// A streamed program is given what it reads in line with its result, by the number of the load.
extern "C" {
TREK_PROGRAM(0)
TREK_PROGRAM(1)
TREK_PROGRAM(2)
TREK_PROGRAM(3)
TREK_STREAMED_PROGRAM(2)
TREK_STREAMED_PROGRAM(3)
}
#undef TREK_PROGRAM
#undef TREK_STREAMED_PROGRAM

namespace trek::device {

// The programs of a node: fetch[0], fetch[1], deliver[0], deliver[1].
inline constexpr uint32_t kDeliver = 2;
inline constexpr uint32_t kToShared = ~0u;  // no result of the node, but the staged array

namespace program_detail {

TREK_UNIT const Program& program_of(const Node& node, uint32_t which) {
  return which < kDeliver ? node.fetch[which] : node.deliver[which - kDeliver];
}

// The element `first + ahead`, in register form; narrow programs look at the lower half of `main`.
TREK_UNIT uint64_t value_of(const Task& task, uint32_t which, int64_t first, int64_t ahead,
                            uint64_t main) {
  const Context& in = task.context();
  int64_t* fault = &task.fault().element;
  switch (which) {
    case 0:
      return trek_program_0(in.arena, in.addresses, task.scalars(), fault, first, ahead, main);
    case 1:
      return trek_program_1(in.arena, in.addresses, task.scalars(), fault, first, ahead, main);
    case 2:
      return trek_program_2(in.arena, in.addresses, task.scalars(), fault, first, ahead, main);
    default:
      return trek_program_3(in.arena, in.addresses, task.scalars(), fault, first, ahead, main);
  }
}
TREK_UNIT int64_t together(uint32_t which) {
  switch (which) {
    case 0:
      return trek_together_0();
    case 1:
      return trek_together_1();
    case 2:
      return trek_together_2();
    default:
      return trek_together_3();
  }
}

#ifdef __CUDA__

// The value at position p goes to where results go.
template <typename Word>
TREK_UNIT void give(const Task& task, uint32_t out, Aliased<Word>* word, int64_t element,
                    uint64_t bits) {
  if (out == kToShared) {
    *word = static_cast<Word>(bits);
    return;
  }
  const Operand& to = task.node().result(out);
  store64(task.memory(to), static_cast<DType>(to.dtype), element, bits);
}

inline constexpr uint32_t kAhead = 4;  // fours of a thread in a turn

// Has what a program reads of four elements in line brought to the second-level cache.
TREK_UNIT void prefetch_four(const Task& task, const Program& program, int64_t element) {
  const Node& node = task.node();
  TREK_UNROLLED
  for (uint32_t l = 0; l < kNarrowSlots; ++l) {
    if (l >= program.loads) continue;
    const Operand& from = node.operand(node.load(program.first_load + l)->operand);
    if (from.map.kind != Map::same) continue;
    prefetch(task.memory(from) + element * size_of(static_cast<DType>(from.dtype)));
  }
}

// What a program gives for four neighbouring positions, whose elements lie in line from a multiple of four on.
struct FourBits {
  uint64_t e[kFour];
};
template <typename Word>
TREK_UNIT FourBits four_of(const Task& task, uint32_t which, int64_t element,
                           const Aliased<Word>* words) {
  FourBits bits;
  TREK_UNROLLED
  for (uint32_t e = 0; e < kFour; ++e) bits.e[e] = value_of(task, which, element, e, words[e]);
  return bits;
}
template <typename Word>
TREK_UNIT void give_four(const Task& task, uint32_t out, Aliased<Word>* words, int64_t element,
                         const FourBits& bits) {
  TREK_UNROLLED
  for (uint32_t e = 0; e < kFour; ++e) give<Word>(task, out, words + e, element + e, bits.e[e]);
}

TREK_UNIT uint64_t streamed_value_of(const Task& task, uint32_t which, int64_t first, int64_t ahead,
                                     const uint64_t* arrived) {
  const Context& in = task.context();
  int64_t* fault = &task.fault().element;
  if (which == kDeliver)
    return trek_streamed_program_2(in.arena, in.addresses, task.scalars(), fault, first, ahead,
                                   arrived);
  return trek_streamed_program_3(in.arena, in.addresses, task.scalars(), fault, first, ahead,
                                 arrived);
}

// A multiple of four: said in a way that the compiler does not take for what it knew and forgot.
TREK_UNIT int64_t said_multiple(int64_t element) {
  int64_t fourth = element >> 2;
  asm("" : "+l"(fourth));
  return fourth << 2;
}

// What a pointwise node gives for elements first ... first + count - 1, in line and from a multiple of four on, but for
// the last that are no four.
TREK_UNIT void run_stream(const Task& task, uint32_t which, int64_t first, uint32_t count,
                          uint32_t out) {
  const Program& program = program_of(task.node(), which);
  const Stream stream(task, program, first, count);
  const Operand& result = task.node().result(out);
  std::byte* to = task.memory(result);
  const auto make = [&](int64_t element, const Arrived& four) TREK_TILE_LAMBDA {
    FourBits bits;
    TREK_UNROLLED
    for (uint32_t e = 0; e < kFour; ++e)
      bits.e[e] = streamed_value_of(task, which, element, e, four.value[e]);
    return bits;
  };
  const auto store = [&](int64_t element, const FourBits& bits) TREK_TILE_LAMBDA {
    TREK_UNROLLED
    for (uint32_t e = 0; e < kFour; ++e)
      store64(to, static_cast<DType>(result.dtype), element + e, bits.e[e]);
  };
  const int64_t begin = said_multiple(first);
  const uint32_t turns = count / stream.turn_elements();
  for (uint32_t turn = 0; turn < kTurns; ++turn) stream.ask(turn);
  uint32_t turn = 0;
  TREK_ROLLED
  for (; turn < turns; ++turn) {
    wait_for_copies(kTurns - 1);
    Arrived fours[kMostFours];
    TREK_UNROLLED
    for (uint32_t a = 0; a < kMostFours; ++a)
      if (a < stream.fours()) fours[a] = stream.take(turn, a);
    stream.ask(turn + kTurns);
    // Nothing is stored before all is loaded: what lies in between would be loaded again.
    const int64_t element = begin + stream.position(turn);
    FourBits bits[kMostFours];
    TREK_UNROLLED
    for (uint32_t a = 0; a < kMostFours; ++a)
      if (a < stream.fours()) bits[a] = make(element + a * stream.stride(), fours[a]);
    TREK_UNROLLED
    for (uint32_t a = 0; a < kMostFours; ++a)
      if (a < stream.fours()) store(element + a * stream.stride(), bits[a]);
  }
  wait_for_copies(0);
  TREK_ROLLED
  for (uint32_t a = 0; a < stream.fours() && stream.has(turn, a); ++a) {
    const int64_t element = begin + stream.position(turn) + a * stream.stride();
    store(element, make(element, stream.take(turn, a)));
  }
}

// A thread takes four neighbouring positions where they may be four elements in line, whose loads and stores then
// become one each, else one.
template <typename Word>
TREK_UNIT void run_positions(const Task& task, uint32_t which, const Positions& where,
                             uint32_t count, uint32_t at, uint32_t out) {
  const Node& node = task.node();
  const Program& program = program_of(node, which);
  auto* words = task.shared<Aliased<Word>>(at);
  const int64_t most = together(which);
  const bool in_line =
      program.narrow != 0 && (most == INT64_MAX || most % kFour == 0) && rows_of_fours(node, where);
  const bool streamed =
      in_line && where.width == 0 && out != kToShared && node.result(out).elements >= kStreamed;
  uint32_t p = 0;
  if (streamed && where.first % kFour == 0 && static_cast<Kind>(node.kind) == Kind::program) {
    run_stream(task, which, where.first, count, out);
    p = count - count % kFour;
  } else if (streamed && where.first % kFour == 0) {
    // Main values lie where a stream would.
    const uint32_t stride = kFour * task.threads();
    const uint32_t turn = kAhead * stride;
    const uint32_t own = kFour * task.thread();
    for (; p + turn <= count; p += turn) {
      const int64_t element = said_multiple(where.first + p + own);
      // Of the next turn: a program with branches asks for an element when it comes to it.
      if (p + 2 * turn <= count) {
        TREK_UNROLLED
        for (uint32_t a = 0; a < kAhead; ++a)
          prefetch_four(task, program, element + turn + a * stride);
      }
      // Nothing is stored before all is loaded: what lies in between would be loaded again.
      FourBits bits[kAhead];
      TREK_UNROLLED
      for (uint32_t a = 0; a < kAhead; ++a)
        bits[a] = four_of<Word>(task, which, element + a * stride, words + p + own + a * stride);
      TREK_UNROLLED
      for (uint32_t a = 0; a < kAhead; ++a)
        give_four<Word>(task, out, words + p + own + a * stride, element + a * stride, bits[a]);
    }
  }
  // Of a few, steps that take long are for as many threads as there are.
  const bool fours = in_line && (program.slow == 0 || streamed);
  const uint32_t each = fours ? kFour : 1;
  for (p += each * task.thread(); p < count; p += each * task.threads()) {
    int64_t element = element_at(node, where, p);
    if (fours && element % kFour == 0 && p + kFour <= count) {
      element = said_multiple(element);
      give_four<Word>(task, out, words + p, element,
                      four_of<Word>(task, which, element, words + p));
      continue;
    }
    for (uint32_t q = p; q < p + each && q < count; ++q) {
      if (q > p) element = element_at(node, where, q);
      give<Word>(task, out, words + q, element, value_of(task, which, element, 0, words[q]));
    }
  }
}

#else

// Elements first ... first + count - 1, whose main values and, for kToShared, results are `width` bytes each
// from `at` on.
template <typename Word>
TREK_UNIT void run_line(const Task& task, uint32_t which, int64_t first, int64_t count,
                        std::byte* at, uint32_t out) {
  auto* words = reinterpret_cast<Aliased<Word>*>(at);
  const int64_t most = together(which);
  const Operand to = out == kToShared ? Operand{} : task.node().result(out);
  std::byte* result = out == kToShared ? nullptr : task.memory(to);
  for (int64_t done = 0; done < count;) {
    const int64_t start = first + done;
    const int64_t left = most - (most == INT64_MAX ? 0 : start % most);
    const int64_t n = left < count - done ? left : count - done;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t bits = value_of(task, which, start, i, words[done + i]);
      if (out == kToShared)
        words[done + i] = static_cast<Word>(bits);
      else
        store64(result, static_cast<DType>(to.dtype), start + i, bits);
    }
    done += n;
  }
}

template <typename Word>
TREK_UNIT void run_positions(const Task& task, uint32_t which, const Positions& where,
                             uint32_t count, uint32_t at, uint32_t out) {
  const Node& node = task.node();
  auto* begin = task.shared<std::byte>(at);
  if (where.width == 0) return run_line<Word>(task, which, where.first, count, begin, out);
  const int64_t rows = count / where.width;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t row_at = place_of(node, where.rows, where.first_row + row);
    std::byte* line = begin + row * where.width * sizeof(Word);
    if (where.columns.kind == Map::same) {
      run_line<Word>(task, which, row_at + where.first_column, where.width, line, out);
      continue;
    }
    for (int64_t column = 0; column < where.width; ++column)
      run_line<Word>(task, which,
                     row_at + place_of(node, where.columns, where.first_column + column), 1,
                     line + column * sizeof(Word), out);
  }
}

#endif

}  // namespace program_detail

// Runs program `which` of the node at positions 0 ... count - 1. Its main value at position p is the p-th of
// the array at the byte offset `at` of the shared memory (in the narrow form of uint32_t, else of uint64_t).
// The results go to result `out` of the node, or for kToShared to that array.
TREK_UNIT void run(const Task& task, uint32_t which, const Positions& where, uint32_t count,
                   uint32_t at, uint32_t out) {
  using namespace program_detail;  // NOLINT(google-build-using-namespace)
  if (program_of(task.node(), which).narrow != 0)
    run_positions<uint32_t>(task, which, where, count, at, out);
  else
    run_positions<uint64_t>(task, which, where, count, at, out);
}

// Gives element `element` of result 0 by the narrow deliver program, from its main value. What loads and what is
// made of it are one function here.
TREK_UNIT void load_delivery(const Task& /*task*/, int64_t /*element*/) {}
TREK_UNIT void deliver_loaded(const Task& task, uint32_t main, int64_t element) {
  const Operand& to = task.node().result(0);
  store64(task.memory(to), static_cast<DType>(to.dtype), element,
          program_detail::value_of(task, kDeliver, element, 0, main));
}
TREK_UNIT void deliver_one(const Task& task, uint32_t main, int64_t element) {
  deliver_loaded(task, main, element);
}

}  // namespace trek::device
