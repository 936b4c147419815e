// What executes each instruction, by its opcode without what makes no difference here: .uni, .volatile, scopes and
// orders of memory, caches. One function for each part of the instruction set adds its own.
#pragma once

#include <bit>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "tests/ptx/machine.h"

namespace trek::ptx {

using Handlers = std::unordered_map<std::string, Handler>;

void add_arithmetic(Handlers& handlers);
void add_conversions(Handlers& handlers);
void add_comparisons(Handlers& handlers);
void add_memory(Handlers& handlers);
void add_barriers(Handlers& handlers);
void add_matrices(Handlers& handlers);
void add_clusters(Handlers& handlers);

// Behind the name of a load, a store or a conversion: the register of what is loaded, stored or converted is of 64
// bits, whatever the type.
inline constexpr const char* kInLongs = " longs";
// Behind the name of a warpgroup's product: the left operand is in registers.
inline constexpr const char* kOfRegisters = " registers";

// Special registers, by their names: instructions that read them.
void add_special_registers(Handlers& handlers);

// ---- registers as types ---------------------------------------------------------------------------

template <typename T>
using Slot = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename T>
Slot<T>* slots(Warp& warp, Operand of) {
  if constexpr (sizeof(T) == 8)
    return warp.longs(of);
  else
    return warp.words(of);
}

template <size_t kBytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using Type = uint8_t;
};
template <>
struct UnsignedOf<2> {
  using Type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using Type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using Type = uint64_t;
};

template <typename T>
T get(Slot<T> slot) {
  return std::bit_cast<T>(static_cast<typename UnsignedOf<sizeof(T)>::Type>(slot));
}
// Signed types fill the slot by their sign, which narrower reads do not see.
template <typename T>
Slot<T> put(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return std::bit_cast<Slot<T>>(value);
  else
    return static_cast<Slot<T>>(value);
}

// Fewer lanes than this are executed one by one.
inline constexpr int kFewLanes = 4;

// d[lane] = value(lane) in lanes of a mask. Most often it is all of them, and a slot is d's own or none of d's: so values of
// all lanes are made by the computer's vectors, beside d, and those of the mask kept. `value` must be harmless in others.
template <typename S, typename F>
void assign(S* d, uint32_t lanes, F value) {
  if (std::popcount(lanes) < kFewLanes) {
    for_lanes(lanes, [&](uint32_t lane) { d[lane] = value(lane); });
    return;
  }
  S values[kLanes];
  for (uint32_t lane = 0; lane < kLanes; ++lane) values[lane] = value(lane);
  if (lanes == kAllLanes) {
    std::memcpy(d, values, sizeof values);
  } else {
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      d[lane] = (lanes >> lane & 1) != 0 ? values[lane] : d[lane];
  }
}

// d = f(a), d = f(a, b), d = f(a, b, c) in every lane.
template <typename D, typename A, typename F>
void map1(Warp& warp, const Instruction& i, uint32_t lanes, F f) {
  const Slot<A>* a = slots<A>(warp, i.operands[1]);
  assign(slots<D>(warp, i.operands[0]), lanes,
         [=](uint32_t lane) { return put<D>(f(get<A>(a[lane]))); });
}
template <typename D, typename A, typename B, typename F>
void map2(Warp& warp, const Instruction& i, uint32_t lanes, F f) {
  const Slot<A>* a = slots<A>(warp, i.operands[1]);
  const Slot<B>* b = slots<B>(warp, i.operands[2]);
  assign(slots<D>(warp, i.operands[0]), lanes,
         [=](uint32_t lane) { return put<D>(f(get<A>(a[lane]), get<B>(b[lane]))); });
}
template <typename D, typename A, typename B, typename C, typename F>
void map3(Warp& warp, const Instruction& i, uint32_t lanes, F f) {
  const Slot<A>* a = slots<A>(warp, i.operands[1]);
  const Slot<B>* b = slots<B>(warp, i.operands[2]);
  const Slot<C>* c = slots<C>(warp, i.operands[3]);
  assign(slots<D>(warp, i.operands[0]), lanes, [=](uint32_t lane) {
    return put<D>(f(get<A>(a[lane]), get<B>(b[lane]), get<C>(c[lane])));
  });
}

// The one NaN that arithmetic of f32 gives.
inline constexpr uint32_t kNaN32 = 0x7FFFFFFF;
inline float canonical(float value) {
  return value == value ? value : std::bit_cast<float>(kNaN32);
}
inline double canonical(double value) { return value; }

// The addresses that operand `which` of an instruction gives.
inline Addresses addresses(Warp& warp, const Instruction& i, uint32_t which) {
  const int64_t plus = i.added_to == which ? i.value : 0;
  if ((i.word_addresses >> which & 1) != 0) return {warp.words(i.operands[which]), nullptr, plus};
  return {nullptr, warp.longs(i.operands[which]), plus};
}

// Arrives at a barrier in shared memory for bytes that have come.
void complete_bytes(Warp& warp, uint32_t barrier, uint32_t bytes);
// The same for bytes of another block, which may come before anybody expects them; and an arrival of one of its lanes.
void complete_bytes_from_outside(Warp& warp, uint32_t barrier, uint32_t bytes);
void arrive_from_outside(Warp& warp, uint32_t barrier);
// A warp of the block that has a rank in this one's cluster; fails where there is none, or it has ended.
Warp& warp_of_cluster(Warp& warp, uint32_t rank, uint32_t lane);

}  // namespace trek::ptx
