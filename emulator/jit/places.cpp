#include "emulator/jit/places.h"

#include <algorithm>

#include "emulator/device/node.h"

namespace trek::jit {
namespace {

using device::Kind;
using device::Node;
using device::Operand;
using device::Scalar;

class Places {
 public:
  int64_t instead_of(int64_t offset) {
    auto at = std::ranges::find(offsets_, offset);
    if (at == offsets_.end()) at = offsets_.insert(at, offset);
    return kPlaceBytes * (at - offsets_.begin() + 1) + offset % kPlaceAlignment;
  }
  std::vector<int64_t> list() const {
    std::vector<int64_t> places = offsets_;
    for (int64_t& place : places) place -= place % kPlaceAlignment;
    return places;
  }

 private:
  std::vector<int64_t> offsets_;
};

// Whether a number in register form (device/element.h) begins with its bytes in memory.
bool is_its_register_form(uint8_t type) {
  const auto of = static_cast<device::DType>(type);
  return of != device::DType::f16 && of != device::DType::bf16 && of != device::DType::f8e4m3 &&
         of != device::DType::f8e5m2;
}

}  // namespace

Placed without_addresses(std::span<const std::byte> record) {
  Placed made;
  made.record.assign(record.begin(), record.end());
  auto& node = *reinterpret_cast<Node*>(made.record.data());
  Places places;
  const auto replace = [&](uint32_t table, uint32_t count) {
    auto* operands = reinterpret_cast<Operand*>(made.record.data() + table);
    for (uint32_t i = 0; i < count; ++i)
      if (operands[i].dtype != 0) operands[i].offset = places.instead_of(operands[i].offset);
  };
  replace(node.operands_at, node.all_operands);
  replace(node.results_at, node.results);
  auto* scalars = reinterpret_cast<Scalar*>(made.record.data() + node.scalars_at);
  for (uint32_t i = 0; i < node.scalars; ++i)
    if (scalars[i].kind == Scalar::memory) scalars[i].value = places.instead_of(scalars[i].value);
  if (node.scratch_bytes > 0) node.scratch = places.instead_of(node.scratch);
  made.places = places.list();
  made.first_number = made.places.size();
  const auto kind = static_cast<Kind>(node.kind);
  for (uint32_t i = 0; (kind == Kind::random || kind == Kind::dropout) && i < node.scalars; ++i) {
    if (scalars[i].kind != Scalar::constant || !is_its_register_form(scalars[i].to)) continue;
    made.places.push_back(scalars[i].value);
    scalars[i].kind = Scalar::memory;
    scalars[i].from = scalars[i].to;
    scalars[i].value = kPlaceBytes * static_cast<int64_t>(made.places.size());
  }
  // Of a GPU, with addresses of its own.
  if (kind == Kind::matrix) node.matrix.cut = {};
  return made;
}

}  // namespace trek::jit
