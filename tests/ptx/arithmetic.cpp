#include <algorithm>
#include <cmath>

#include "tests/ptx/handlers.h"

namespace trek::ptx {
namespace {

__extension__ using Int128 = __int128;
__extension__ using Unsigned128 = unsigned __int128;

template <typename T>
T wrapped(typename UnsignedOf<sizeof(T)>::Type value) {
  return std::bit_cast<T>(value);
}
template <typename T>
auto bits(T value) {
  return std::bit_cast<typename UnsignedOf<sizeof(T)>::Type>(value);
}

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return canonical(a + b);
    else
      return wrapped<T>(static_cast<typename UnsignedOf<sizeof(T)>::Type>(bits(a) + bits(b)));
  }
};
struct Subtract {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return canonical(a - b);
    else
      return wrapped<T>(static_cast<typename UnsignedOf<sizeof(T)>::Type>(bits(a) - bits(b)));
  }
};
struct Multiply {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return canonical(a * b);
    else
      return wrapped<T>(
          static_cast<typename UnsignedOf<sizeof(T)>::Type>(uint64_t{bits(a)} * uint64_t{bits(b)}));
  }
};
struct MultiplyHigh {
  template <typename T>
  T operator()(T a, T b) const {
    using Wide = std::conditional_t<std::is_signed_v<T>, Int128, Unsigned128>;
    return static_cast<T>(Wide{a} * Wide{b} >> sizeof(T) * 8);
  }
};
// Of integers, a division by zero gives ones, as a device does.
struct Divide {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return canonical(a / b);
    } else {
      if (b == 0) return static_cast<T>(~T{0});
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return Subtract()(T{0}, a);
      return static_cast<T>(a / b);
    }
  }
};
struct Remainder {
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return static_cast<T>(a % b);
  }
};
template <bool kSmaller, bool kKeepsNaN>
struct Extreme {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) {
        const bool both = a != a && b != b;
        if (kKeepsNaN || both) return canonical(std::numeric_limits<T>::quiet_NaN());
        return a != a ? b : a;
      }
      if (a == b) return std::signbit(a) == kSmaller ? a : b;  // -0 is below 0
    }
    return (a < b) == kSmaller ? a : b;
  }
};
struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct ExclusiveOr {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Negate {
  template <typename T>
  T operator()(T a) const {
    if constexpr (std::is_floating_point_v<T>)
      return -a;
    else
      return Subtract()(T{0}, a);
  }
};
struct Absolute {
  template <typename T>
  T operator()(T a) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fabs(a);
    else
      return a < 0 ? Subtract()(T{0}, a) : a;
  }
};
struct Not {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
struct SquareRoot {
  template <typename T>
  T operator()(T a) const {
    return canonical(std::sqrt(a));
  }
};
struct Reciprocal {
  template <typename T>
  T operator()(T a) const {
    return canonical(T{1} / a);
  }
};
// The device's own is within one unit of the last place.
struct NearReciprocal {
  static float flushed(float a) { return std::fabs(a) < 0x1p-126F ? std::copysign(0.0F, a) : a; }
  float operator()(float a) const { return canonical(flushed(1.0F / flushed(a))); }
};
struct NearRoot {
  float operator()(float a) const {
    return canonical(1.0F / std::sqrt(NearReciprocal::flushed(a)));
  }
};
struct Same {
  template <typename T>
  T operator()(T a) const {
    return a;
  }
};

template <typename T, typename F>
void unary(Warp& warp, const Instruction& i, uint32_t lanes) {
  map1<T, T>(warp, i, lanes, F());
}
template <typename T, typename F>
void binary(Warp& warp, const Instruction& i, uint32_t lanes) {
  map2<T, T, T>(warp, i, lanes, F());
}
template <typename T>
void fused(Warp& warp, const Instruction& i, uint32_t lanes) {
  map3<T, T, T, T>(warp, i, lanes, [](T a, T b, T c) { return canonical(std::fma(a, b, c)); });
}
template <typename T>
void multiply_add(Warp& warp, const Instruction& i, uint32_t lanes) {
  map3<T, T, T, T>(warp, i, lanes, [](T a, T b, T c) { return Add()(Multiply()(a, b), c); });
}
template <typename D, typename T>
void multiply_wide(Warp& warp, const Instruction& i, uint32_t lanes) {
  map2<D, T, T>(warp, i, lanes, [](T a, T b) { return static_cast<D>(D{a} * D{b}); });
}
template <typename D, typename T>
void multiply_add_wide(Warp& warp, const Instruction& i, uint32_t lanes) {
  map3<D, T, T, D>(warp, i, lanes,
                   [](T a, T b, D c) { return Add()(static_cast<D>(D{a} * D{b}), c); });
}

template <typename T>
void shift_left(Warp& warp, const Instruction& i, uint32_t lanes) {
  map2<T, T, uint32_t>(warp, i, lanes, [](T a, uint32_t by) {
    return by >= sizeof(T) * 8 ? T{0} : static_cast<T>(a << by);
  });
}
template <typename T>
void shift_right(Warp& warp, const Instruction& i, uint32_t lanes) {
  map2<T, T, uint32_t>(warp, i, lanes, [](T a, uint32_t by) {
    constexpr uint32_t kBits = sizeof(T) * 8;
    if (by < kBits) return static_cast<T>(a >> by);
    return static_cast<T>(std::is_signed_v<T> && a < 0 ? -1 : 0);
  });
}
template <typename T>
void extract_bits(Warp& warp, const Instruction& i, uint32_t lanes) {
  map3<T, T, uint32_t, uint32_t>(warp, i, lanes, [](T a, uint32_t at, uint32_t count) {
    constexpr uint32_t kBits = sizeof(T) * 8;
    at &= 0xFF;
    count &= 0xFF;
    if (at >= kBits || count == 0) return T{0};
    const T moved = a >> at;
    return count >= kBits ? moved : static_cast<T>(moved & ((T{1} << count) - 1));
  });
}
template <typename T>
void extract_signed_bits(Warp& warp, const Instruction& i, uint32_t lanes) {
  map3<T, T, uint32_t, uint32_t>(warp, i, lanes, [](T a, uint32_t at, uint32_t count) {
    constexpr uint32_t kBits = sizeof(T) * 8;
    at = std::min(at & 0xFF, kBits - 1);
    count = std::min(count & 0xFF, kBits - at);
    if (count == 0) return T{0};
    const auto raised = static_cast<T>(bits(a) << (kBits - at - count));
    return static_cast<T>(raised >> (kBits - count));
  });
}
// bfi d, a, b, at, count: so many bits of a, in the place of b's.
template <typename T>
void insert_bits(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint32_t* counts = warp.words(i.operands[4]);
  const uint32_t* places = warp.words(i.operands[3]);
  const Slot<T>* a = slots<T>(warp, i.operands[1]);
  const Slot<T>* b = slots<T>(warp, i.operands[2]);
  constexpr uint32_t kBits = sizeof(T) * 8;
  assign(slots<T>(warp, i.operands[0]), lanes, [=](uint32_t lane) {
    const uint32_t at = places[lane] & 0xFF;
    const uint32_t count = counts[lane] & 0xFF;
    const T ones = count >= kBits ? ~T{0} : (T{1} << count) - 1;
    const T mask = at >= kBits ? T{0} : static_cast<T>(ones << at);
    const T moved = at >= kBits ? T{0} : static_cast<T>(a[lane] << at);
    return (b[lane] & ~mask) | (moved & mask);
  });
}
// prmt d, a, b, which: four of the eight bytes of a and b, each by four bits, the highest of which asks for its sign.
void permute_bytes(Warp& warp, const Instruction& i, uint32_t lanes) {
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(
      warp, i, lanes, [](uint32_t a, uint32_t b, uint32_t which) {
        const uint64_t bytes = uint64_t{b} << 32 | a;
        uint32_t result = 0;
        for (uint32_t byte = 0; byte < 4; ++byte) {
          const uint32_t selector = which >> 4 * byte & 15;
          uint32_t value = static_cast<uint32_t>(bytes >> 8 * (selector & 7)) & 0xFF;
          if ((selector & 8) != 0) value = (value & 0x80) != 0 ? 0xFF : 0;
          result |= value << 8 * byte;
        }
        return result;
      });
}
// shf: the upper or lower half of two words that are shifted together.
template <bool kLeft>
void funnel(Warp& warp, const Instruction& i, uint32_t lanes) {
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(
      warp, i, lanes, [](uint32_t low, uint32_t high, uint32_t by) {
        const uint64_t both = uint64_t{high} << 32 | low;
        by &= 31;
        return static_cast<uint32_t>(kLeft ? both << by >> 32 : both >> by);
      });
}

template <typename T>
void count_ones(Warp& warp, const Instruction& i, uint32_t lanes) {
  map1<uint32_t, T>(warp, i, lanes, [](T a) { return static_cast<uint32_t>(std::popcount(a)); });
}
template <typename T>
void count_zeros(Warp& warp, const Instruction& i, uint32_t lanes) {
  map1<uint32_t, T>(warp, i, lanes, [](T a) { return static_cast<uint32_t>(std::countl_zero(a)); });
}

// Additions and subtractions of 64 bits with the carry.
template <bool kSubtracts, bool kTakesCarry, bool kGivesCarry>
void carried(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint64_t* d = warp.longs(i.operands[0]);
  const uint64_t* a = warp.longs(i.operands[1]);
  const uint64_t* b = warp.longs(i.operands[2]);
  for_lanes(lanes, [&](uint32_t lane) {
    const uint64_t carry = kTakesCarry ? warp.carry >> lane & 1 : 0;
    const Unsigned128 sum = kSubtracts ? Unsigned128{a[lane]} - b[lane] - carry
                                       : Unsigned128{a[lane]} + b[lane] + carry;
    d[lane] = static_cast<uint64_t>(sum);
    if (!kGivesCarry) return;
    const uint32_t bit = 1U << lane;
    warp.carry = (sum >> 64) != 0 ? warp.carry | bit : warp.carry & ~bit;
  });
}

template <typename T>
void select(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Slot<T>* a = slots<T>(warp, i.operands[1]);
  const Slot<T>* b = slots<T>(warp, i.operands[2]);
  const uint32_t which = warp.predicate(i.operands[3]);
  assign(slots<T>(warp, i.operands[0]), lanes,
         [=](uint32_t lane) { return (which >> lane & 1) != 0 ? a[lane] : b[lane]; });
}

// Two halves of a register, and two registers as one.
void split_word(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint32_t* from = warp.words(i.operands[2]);
  for (uint32_t half = 0; half < 2; ++half) {
    if (i.operands[half] == kNoOperand) continue;
    assign(warp.words(i.operands[half]), lanes,
           [=](uint32_t lane) { return from[lane] >> 16 * half & 0xFFFF; });
  }
}
void split_long(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t* from = warp.longs(i.operands[2]);
  for (uint32_t half = 0; half < 2; ++half) {
    if (i.operands[half] == kNoOperand) continue;
    assign(warp.words(i.operands[half]), lanes,
           [=](uint32_t lane) { return static_cast<uint32_t>(from[lane] >> 32 * half); });
  }
}
void join_word(Warp& warp, const Instruction& i, uint32_t lanes) {
  map2<uint32_t, uint16_t, uint16_t>(warp, i, lanes, [](uint16_t low, uint16_t high) {
    return uint32_t{low} | uint32_t{high} << 16;
  });
}
void join_long(Warp& warp, const Instruction& i, uint32_t lanes) {
  map2<uint64_t, uint32_t, uint32_t>(warp, i, lanes, [](uint32_t low, uint32_t high) {
    return uint64_t{low} | uint64_t{high} << 32;
  });
}
// The address of a variable in local memory, of which every call has its own.
void local_address(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint64_t* d = warp.longs(i.operands[0]);
  for_lanes(lanes, [&](uint32_t lane) {
    d[lane] = warp.local_base(lane) + static_cast<uint64_t>(i.value);
  });
}

template <typename F>
void logic(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint32_t a = warp.predicate(i.operands[1]);
  const uint32_t b = warp.predicate(i.operands[2]);
  warp.set_predicate(i.operands[0], lanes, F()(a, b));
}
void move_predicate(Warp& warp, const Instruction& i, uint32_t lanes) {
  warp.set_predicate(i.operands[0], lanes, warp.predicate(i.operands[1]));
}
void invert_predicate(Warp& warp, const Instruction& i, uint32_t lanes) {
  warp.set_predicate(i.operands[0], lanes, ~warp.predicate(i.operands[1]));
}

template <typename T>
void add_integer(Handlers& h, const std::string& type) {
  h["add." + type] = binary<T, Add>;
  h["sub." + type] = binary<T, Subtract>;
  h["mul.lo." + type] = binary<T, Multiply>;
  h["mul.hi." + type] = binary<T, MultiplyHigh>;
  h["mad.lo." + type] = multiply_add<T>;
  h["div." + type] = binary<T, Divide>;
  h["rem." + type] = binary<T, Remainder>;
  h["min." + type] = binary<T, Extreme<true, false>>;
  h["max." + type] = binary<T, Extreme<false, false>>;
  h["shr." + type] = shift_right<T>;
  if constexpr (std::is_signed_v<T>) {
    h["neg." + type] = unary<T, Negate>;
    h["abs." + type] = unary<T, Absolute>;
  }
}
template <typename T>
void add_float(Handlers& h, const std::string& type) {
  h["add.rn." + type] = h["add." + type] = binary<T, Add>;
  h["sub.rn." + type] = h["sub." + type] = binary<T, Subtract>;
  h["mul.rn." + type] = h["mul." + type] = binary<T, Multiply>;
  h["div.rn." + type] = binary<T, Divide>;
  h["fma.rn." + type] = fused<T>;
  h["min." + type] = binary<T, Extreme<true, false>>;
  h["max." + type] = binary<T, Extreme<false, false>>;
  h["min.NaN." + type] = binary<T, Extreme<true, true>>;
  h["max.NaN." + type] = binary<T, Extreme<false, true>>;
  h["neg." + type] = unary<T, Negate>;
  h["abs." + type] = unary<T, Absolute>;
  h["sqrt.rn." + type] = unary<T, SquareRoot>;
  h["rcp.rn." + type] = unary<T, Reciprocal>;
}
template <typename T>
void add_bits(Handlers& h, const std::string& size) {
  h["and.b" + size] = binary<T, And>;
  h["or.b" + size] = binary<T, Or>;
  h["xor.b" + size] = binary<T, ExclusiveOr>;
  h["not.b" + size] = unary<T, Not>;
  h["shl.b" + size] = shift_left<T>;
  for (const char* kind : {"b", "u", "s", "f"}) {
    h["mov." + (kind + size)] = unary<T, Same>;
    h["selp." + (kind + size)] = select<T>;
  }
}

}  // namespace

void add_arithmetic(Handlers& h) {
  add_integer<int16_t>(h, "s16");
  add_integer<uint16_t>(h, "u16");
  add_integer<int32_t>(h, "s32");
  add_integer<uint32_t>(h, "u32");
  add_integer<int64_t>(h, "s64");
  add_integer<uint64_t>(h, "u64");
  add_float<float>(h, "f32");
  add_float<double>(h, "f64");
  add_bits<uint16_t>(h, "16");
  add_bits<uint32_t>(h, "32");
  add_bits<uint64_t>(h, "64");
  h["mul.wide.u16"] = multiply_wide<uint32_t, uint16_t>;
  h["mul.wide.s16"] = multiply_wide<int32_t, int16_t>;
  h["mul.wide.u32"] = multiply_wide<uint64_t, uint32_t>;
  h["mul.wide.s32"] = multiply_wide<int64_t, int32_t>;
  h["mad.wide.u32"] = multiply_add_wide<uint64_t, uint32_t>;
  h["mad.wide.s32"] = multiply_add_wide<int64_t, int32_t>;
  h["rcp.approx.ftz.f32"] = unary<float, NearReciprocal>;
  h["rsqrt.approx.ftz.f32"] = unary<float, NearRoot>;
  h["bfe.u32"] = extract_bits<uint32_t>;
  h["bfe.u64"] = extract_bits<uint64_t>;
  h["bfe.s32"] = extract_signed_bits<int32_t>;
  h["bfe.s64"] = extract_signed_bits<int64_t>;
  h["bfi.b32"] = insert_bits<uint32_t>;
  h["bfi.b64"] = insert_bits<uint64_t>;
  h["prmt.b32"] = permute_bytes;
  h["shf.l.wrap.b32"] = funnel<true>;
  h["shf.r.wrap.b32"] = funnel<false>;
  h["popc.b32"] = count_ones<uint32_t>;
  h["popc.b64"] = count_ones<uint64_t>;
  h["clz.b32"] = count_zeros<uint32_t>;
  h["clz.b64"] = count_zeros<uint64_t>;
  for (const char* type : {"s64", "u64"}) {
    h[std::string("add.cc.") + type] = carried<false, false, true>;
    h[std::string("addc.cc.") + type] = carried<false, true, true>;
    h[std::string("addc.") + type] = carried<false, true, false>;
    h[std::string("sub.cc.") + type] = carried<true, false, true>;
    h[std::string("subc.cc.") + type] = carried<true, true, true>;
    h[std::string("subc.") + type] = carried<true, true, false>;
  }
  h["mov.b32 {2}"] = split_word;
  h["mov.b64 {2}"] = split_long;
  h["mov.b32 {1,2}"] = join_word;
  h["mov.b64 {1,2}"] = join_long;
  h["mov.local"] = local_address;
  h["and.pred"] = logic<And>;
  h["or.pred"] = logic<Or>;
  h["xor.pred"] = logic<ExclusiveOr>;
  h["not.pred"] = invert_predicate;
  h["mov.pred"] = move_predicate;
}

}  // namespace trek::ptx
