// cvt and setp: from one type to another, and to a predicate.
#include <cmath>

#include "tests/ptx/handlers.h"
#include "tests/ptx/small_floats.h"

namespace trek::ptx {
namespace {

// Towards zero, held by the type's limits. A NaN is 0 of 32 bits, and of 64 the sign's bit.
template <typename D, typename S>
D truncated(S value) {
  using Limits = std::numeric_limits<D>;
  if (value != value) {
    if (sizeof(S) == 4 && sizeof(D) < 8) return 0;
    return std::bit_cast<D>(
        static_cast<typename UnsignedOf<sizeof(D)>::Type>(uint64_t{1} << (sizeof(D) * 8 - 1)));
  }
  // Limits are no floats of every type: the first number beyond them is.
  const double beyond = std::ldexp(1.0, Limits::digits);
  if (static_cast<double>(value) >= beyond) return Limits::max();
  if (static_cast<double>(value) <= static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<D>(value);
}

template <typename D, typename S>
void convert(Warp& warp, const Instruction& i, uint32_t lanes) {
  map1<D, S>(warp, i, lanes, [](S value) {
    if constexpr (std::is_floating_point_v<S> && std::is_integral_v<D>)
      return truncated<D>(value);
    else if constexpr (std::is_floating_point_v<D>)
      return canonical(static_cast<D>(value));
    else
      return static_cast<D>(value);
  });
}

// The same of the low bits of a longer register.
template <typename D, typename S>
void convert_low(Warp& warp, const Instruction& i, uint32_t lanes) {
  map1<D, uint64_t>(warp, i, lanes, [](uint64_t slot) {
    return static_cast<D>(get<S>(static_cast<uint32_t>(slot)));
  });
}

void half_to_float(Warp& warp, const Instruction& i, uint32_t lanes) {
  map1<float, uint16_t>(warp, i, lanes, [](uint16_t half) { return canonical(from_f16(half)); });
}
template <uint16_t (*kNarrow)(float)>
void float_to_half(Warp& warp, const Instruction& i, uint32_t lanes) {
  map1<uint16_t, float>(warp, i, lanes, kNarrow);
}
template <uint16_t (*kNarrow)(float)>
void floats_to_halves(Warp& warp, const Instruction& i, uint32_t lanes) {
  map2<uint32_t, float, float>(warp, i, lanes, [](float high, float low) {
    return uint32_t{kNarrow(high)} << 16 | kNarrow(low);
  });
}
void float_to_tf32(Warp& warp, const Instruction& i, uint32_t lanes) {
  map1<uint32_t, float>(warp, i, lanes, to_tf32);
}

template <typename S>
void add_from(Handlers& h, const std::string& from) {
  const auto add = [&]<typename D>(D, const std::string& to) {
    std::string name = "cvt.";
    if (std::is_floating_point_v<D> && (std::is_integral_v<S> || sizeof(D) < sizeof(S)))
      name += "rn.";
    if (std::is_floating_point_v<S> && std::is_integral_v<D>) name += "rzi.";
    h[name + to + "." + from] = convert<D, S>;
    if constexpr (std::is_integral_v<S> && sizeof(S) < 8)
      h[name + to + "." + from + kInLongs] = convert_low<D, S>;
  };
  add(uint8_t{}, "u8");
  add(int8_t{}, "s8");
  add(uint16_t{}, "u16");
  add(int16_t{}, "s16");
  add(uint32_t{}, "u32");
  add(int32_t{}, "s32");
  add(uint64_t{}, "u64");
  add(int64_t{}, "s64");
  add(float{}, "f32");
  add(double{}, "f64");
}

// ---- comparisons ---------------------------------------------------------------------------------

enum class Comparison { eq, ne, lt, le, gt, ge, num, nan };

// Of floats, a comparison with a NaN is what kUnordered says.
template <typename T, Comparison kWhich, bool kUnordered>
bool holds(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool is_nan = a != a || b != b;
    if constexpr (kWhich == Comparison::num) return !is_nan;
    if constexpr (kWhich == Comparison::nan) return is_nan;
    if (is_nan) return kUnordered;
  }
  switch (kWhich) {
    case Comparison::eq:
      return a == b;
    case Comparison::ne:
      return a != b;
    case Comparison::lt:
      return a < b;
    case Comparison::le:
      return a <= b;
    case Comparison::gt:
      return a > b;
    case Comparison::ge:
      return a >= b;
    default:
      return false;
  }
}

template <typename T, Comparison kWhich, bool kUnordered>
void compare(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Slot<T>* a = slots<T>(warp, i.operands[1]);
  const Slot<T>* b = slots<T>(warp, i.operands[2]);
  uint32_t result = 0;
  const auto look = [&](uint32_t lane) {
    result |= uint32_t{holds<T, kWhich, kUnordered>(get<T>(a[lane]), get<T>(b[lane]))} << lane;
  };
  if (std::popcount(lanes) < kFewLanes)
    for_lanes(lanes, look);
  else
    for_lanes(kAllLanes, look);
  warp.set_predicate(i.operands[0], lanes, result);
}

template <typename T>
void add_comparisons_of(Handlers& h, const std::string& type) {
  const auto add = [&]<Comparison kWhich>(const std::string& name) {
    h["setp." + name + "." + type] = compare<T, kWhich, false>;
    if (std::is_floating_point_v<T>) h["setp." + name + "u." + type] = compare<T, kWhich, true>;
  };
  add.template operator()<Comparison::eq>("eq");
  add.template operator()<Comparison::ne>("ne");
  add.template operator()<Comparison::lt>("lt");
  add.template operator()<Comparison::le>("le");
  add.template operator()<Comparison::gt>("gt");
  add.template operator()<Comparison::ge>("ge");
  if constexpr (std::is_floating_point_v<T>) {
    h["setp.num." + type] = compare<T, Comparison::num, false>;
    h["setp.nan." + type] = compare<T, Comparison::nan, false>;
  }
}

}  // namespace

void add_conversions(Handlers& h) {
  add_from<uint8_t>(h, "u8");
  add_from<int8_t>(h, "s8");
  add_from<uint16_t>(h, "u16");
  add_from<int16_t>(h, "s16");
  add_from<uint32_t>(h, "u32");
  add_from<int32_t>(h, "s32");
  add_from<uint64_t>(h, "u64");
  add_from<int64_t>(h, "s64");
  add_from<float>(h, "f32");
  add_from<double>(h, "f64");
  h["cvt.f32.f16"] = half_to_float;
  h["cvt.rn.f16.f32"] = float_to_half<to_f16>;
  h["cvt.rn.bf16.f32"] = float_to_half<to_bf16>;
  h["cvt.rn.f16x2.f32"] = floats_to_halves<to_f16>;
  h["cvt.rn.bf16x2.f32"] = floats_to_halves<to_bf16>;
  h["cvt.rna.tf32.f32"] = float_to_tf32;
}

void add_comparisons(Handlers& h) {
  add_comparisons_of<int16_t>(h, "s16");
  add_comparisons_of<uint16_t>(h, "u16");
  add_comparisons_of<uint16_t>(h, "b16");
  add_comparisons_of<int32_t>(h, "s32");
  add_comparisons_of<uint32_t>(h, "u32");
  add_comparisons_of<uint32_t>(h, "b32");
  add_comparisons_of<int64_t>(h, "s64");
  add_comparisons_of<uint64_t>(h, "u64");
  add_comparisons_of<uint64_t>(h, "b64");
  add_comparisons_of<float>(h, "f32");
  add_comparisons_of<double>(h, "f64");
}

}  // namespace trek::ptx
