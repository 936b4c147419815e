// Element types, shapes and types: what a tensor or a scalar of a program is.
//
// A Type is a dtype and a shape, or a dtype alone for a scalar register. Shapes are static, rank 0 to
// 8; a shape whose element or byte count does not fit is refused when it is made (checked_elements),
// so that every later product of dimensions is known to fit in 63 bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trek::isa {

// The element type; the values are the codes of the binary format.
enum class DType : uint8_t {
  none = 0,
#define TREK_DTYPE(id, name, code, bytes, kind) id = code,
#include "isa/types.def"
#undef TREK_DTYPE
};

enum class DTypeKind : uint8_t { none, real, sint, uint, boolean };

inline constexpr int kDTypeCount = 16;  // codes 0 to 15

std::string_view name(DType type);
std::optional<DType> dtype_from_name(std::string_view name);
int byte_size(DType type);
DTypeKind kind(DType type);
inline bool is_real(DType type) { return kind(type) == DTypeKind::real; }
inline bool is_integer(DType type) {
  return kind(type) == DTypeKind::sint || kind(type) == DTypeKind::uint;
}

// The type in which arithmetic on `type` happens: f32 for the 16- and 8-bit floats, else itself.
DType compute_type(DType type);
// The scalar register type that holds an element of `type`: i64, f32, f64 or bool.
DType scalar_type(DType type);
inline bool is_scalar_type(DType type) { return scalar_type(type) == type; }

// A set of element types, for the type rules of ops.def.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  constexpr DTypeSet(std::initializer_list<DType> types) {
    for (DType type : types) bits_ |= bit(type);
  }
  constexpr bool contains(DType type) const { return (bits_ & bit(type)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr DTypeSet operator|(DTypeSet other) const { return DTypeSet(bits_ | other.bits_, 0); }
  constexpr bool operator==(const DTypeSet&) const = default;
  // "f32 or f64", in the order of types.def.
  std::string text() const;

 private:
  constexpr DTypeSet(uint32_t bits, int) : bits_(bits) {}
  static constexpr uint32_t bit(DType type) { return uint32_t{1} << static_cast<unsigned>(type); }
  uint32_t bits_ = 0;
};

inline constexpr int kMaxRank = 8;
inline constexpr int64_t kMaxElements = int64_t{1} << 48;

// Dimensions, outermost first. Dimensions are at least 0.
class Shape {
 public:
  constexpr Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);  // rank <= kMaxRank is the caller's duty

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return dims_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  void push_back(int64_t dim) { dims_[static_cast<size_t>(rank_++)] = dim; }

  // The number of elements; the shape must have passed checked_elements().
  int64_t elements() const;
  // The number of elements, or nothing where a dimension is negative or the product of the nonzero
  // dimensions exceeds kMaxElements (so an empty shape cannot hide an overflow in its strides).
  std::optional<int64_t> checked_elements() const;
  bool operator==(const Shape& other) const;
  std::string text() const;  // "[2,3]"

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// What a register or a module tensor holds. A scalar register has no shape; `f32[]` is a tensor of
// rank 0 and something else than the scalar `f32`.
struct Type {
  DType dtype = DType::none;
  bool scalar = false;
  Shape shape;

  static Type tensor(DType dtype, Shape shape) { return {dtype, false, shape}; }
  static Type make_scalar(DType dtype) { return {dtype, true, {}}; }
  int64_t elements() const { return shape.elements(); }
  int64_t bytes() const { return elements() * byte_size(dtype); }
  bool operator==(const Type&) const = default;
  std::string text() const;  // "f32[2,3]" or "f32"
};

}  // namespace trek::isa
