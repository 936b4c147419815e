#include "isa/types.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace trek::isa {
namespace {

struct DTypeRow {
  std::string_view name;
  int bytes;
  DTypeKind kind;
};

constexpr std::array<DTypeRow, kDTypeCount> kRows = [] {
  std::array<DTypeRow, kDTypeCount> rows{};
  rows[0] = {"none", 0, DTypeKind::none};
#define TREK_DTYPE(id, name, code, bytes, kind) rows[code] = {name, bytes, DTypeKind::kind};
#include "isa/types.def"
#undef TREK_DTYPE
  return rows;
}();

const DTypeRow& row(DType type) { return kRows[static_cast<size_t>(type) % kDTypeCount]; }

}  // namespace

std::string_view name(DType type) { return row(type).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t code = 1; code < kRows.size(); ++code)
    if (kRows[code].name == name) return static_cast<DType>(code);
  return std::nullopt;
}

int byte_size(DType type) { return row(type).bytes; }

DTypeKind kind(DType type) { return row(type).kind; }

DType compute_type(DType type) { return is_real(type) && byte_size(type) < 4 ? DType::f32 : type; }

DType scalar_type(DType type) {
  if (is_integer(type)) return DType::i64;
  return compute_type(type);
}

std::string DTypeSet::text() const {
  std::string out;
  int left = 0;
  for (int code = 1; code < kDTypeCount; ++code) left += contains(static_cast<DType>(code));
  for (int code = 1; code < kDTypeCount; ++code) {
    if (!contains(static_cast<DType>(code))) continue;
    out += name(static_cast<DType>(code));
    if (--left > 0) out += left == 1 ? " or " : ", ";
  }
  return out;
}

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

int64_t Shape::elements() const {
  int64_t count = 1;
  for (int64_t dim : *this) count *= dim;
  return count;
}

std::optional<int64_t> Shape::checked_elements() const {
  int64_t nonzero = 1;
  bool empty = false;
  for (int64_t dim : *this) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      empty = true;
    } else if (dim > kMaxElements / nonzero) {
      return std::nullopt;
    } else {
      nonzero *= dim;
    }
  }
  return empty ? 0 : nonzero;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string Shape::text() const {
  std::string out = "[";
  for (int axis = 0; axis < rank_; ++axis)
    fmt::format_to(std::back_inserter(out), "{}{}", axis == 0 ? "" : ",", (*this)[axis]);
  return out + "]";
}

std::string Type::text() const {
  std::string out(name(dtype));
  return scalar ? out : out + shape.text();
}

}  // namespace trek::isa
