// Where operands come from: registers that are visible, tensors that are declared, new ones.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "isa/convert.h"
#include "tests/property/random_module.h"

namespace trek::property {

using isa::DType;
using isa::DTypeKind;
using isa::Opcode;
using isa::OpInfo;
using isa::Ref;
using isa::RefKind;
using isa::Role;
using isa::Shape;
using isa::TensorDecl;
using isa::Type;

namespace {

constexpr DType kTypes[] = {
#define TREK_DTYPE(id, name, code, bytes, kind) DType::id,
#include "isa/types.def"
#undef TREK_DTYPE
};

}  // namespace

int64_t RandomWorld::dimension() {
  constexpr int64_t kDimensions[] = {1, 1, 2, 3, 4, 5, 7, 8, 16, 33};
  return random_.chance(3) ? 0 : random_.pick(kDimensions);
}

Shape RandomWorld::shape_of_rank(int rank) {
  Shape shape;
  for (int i = 0; i < rank; ++i) {
    const int64_t room = options_.elements / std::max<int64_t>(1, *shape.checked_elements());
    shape.push_back(std::min(dimension(), std::max<int64_t>(1, room)));
  }
  return shape;
}

Shape RandomWorld::shape() { return shape_of_rank(static_cast<int>(random_.below(5))); }

DType RandomWorld::dtype(const isa::DTypeSet& set) {
  for (;;)
    if (const DType type = random_.pick(kTypes); set.contains(type)) return type;
}

uint64_t RandomWorld::element(DType dtype) {
  const uint64_t kind = random_.below(10);
  if (dtype == DType::boolean) return random_.below(2);
  if (isa::is_real(dtype)) {
    constexpr double kSpecial[] = {0.0, -0.0, 1e-8, 0.1, 1.0 / 255, 1e30, -3.5e-40, 65504};
    if (kind < 5)
      return isa::double_to_bits(dtype, static_cast<double>(random_.between(-16, 16)) / 4);
    if (kind < 8) return isa::double_to_bits(dtype, random_.pick(kSpecial));
    // Any bits, with every NaN the type's one.
    const int unused = 64 - 8 * isa::byte_size(dtype);
    const uint64_t bits = random_.bits() << unused >> unused;
    return isa::double_to_bits(dtype, isa::bits_to_double(dtype, bits));
  }
  const bool is_signed = isa::kind(dtype) == DTypeKind::sint;
  if (kind < 7) return static_cast<uint64_t>(random_.between(is_signed ? -9 : 0, 9));
  const int unused = 64 - 8 * isa::byte_size(dtype);
  const uint64_t bits = random_.bits() << unused;
  return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(bits) >> unused) : bits >> unused;
}

bool RandomWorld::is_readable(Ref ref) const {
  return !ref.is(RefKind::tensor) || module_.tensors[ref.index()].role != Role::stream;
}

Ref RandomWorld::tensor(const Type& type) {
  std::vector<Ref> candidates;
  for (Ref ref : visible_)
    if (build_.type_of(ref) == type) candidates.push_back(ref);
  for (uint32_t i = 0; i < module_.tensors.size(); ++i)
    if (const Ref ref{RefKind::tensor, i};
        module_.types[module_.tensors[i].type] == type && is_readable(ref))
      candidates.push_back(ref);
  if (!candidates.empty() && random_.chance(80)) return random_.pick(candidates);
  constexpr Role kRoles[] = {Role::input, Role::state, Role::data, Role::output};
  return declare(type, random_.pick(kRoles));
}

Ref RandomWorld::index_tensor(DType dtype, const Shape& shape, int64_t limit) {
  const Type type = Type::tensor(dtype, shape);
  if (random_.chance(10)) return tensor(type);  // which may lead out of range
  const Ref ref = build_.tensor(fmt::format("index{}", module_.tensors.size()), type, Role::data);
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  const auto size = static_cast<size_t>(isa::byte_size(dtype));
  for (size_t at = 0; at < bytes.size(); at += size) {
    const uint64_t index = random_.below(static_cast<uint64_t>(std::clamp<int64_t>(limit, 1, 127)));
    std::memcpy(bytes.data() + at, &index, size);
  }
  module_.tensors[ref.index()].source = isa::DataSource::embedded;
  module_.tensors[ref.index()].offset = build_.embed(bytes);
  return ref;
}

Ref RandomWorld::place(const Type& type, std::span<const Ref> taken) {
  std::vector<Ref> candidates;
  const auto add = [&](Ref ref) {
    if (build_.type_of(ref) == type && std::find(taken.begin(), taken.end(), ref) == taken.end())
      candidates.push_back(ref);
  };
  for (uint32_t p = 0; p < build_.function().parameters; ++p)
    if (build_.function().inplace[p] != 0) add({RefKind::value, p});
  for (uint32_t i = 0; i < module_.tensors.size(); ++i)
    if (module_.tensors[i].role == Role::output || module_.tensors[i].role == Role::state)
      add({RefKind::tensor, i});
  if (!candidates.empty() && random_.chance(80)) return random_.pick(candidates);
  return declare(type, random_.chance(50) ? Role::output : Role::state);
}

Ref RandomWorld::stream(const Type& type) { return declare(type, Role::stream); }

Ref RandomWorld::scalar(DType dtype) {
  std::vector<Ref> candidates;
  for (Ref ref : visible_)
    if (build_.type_of(ref) == Type::make_scalar(dtype)) candidates.push_back(ref);
  for (uint32_t i = 0; i < module_.params.size(); ++i)
    if (module_.params[i].dtype == dtype) candidates.emplace_back(RefKind::param, i);
  if (!candidates.empty() && random_.chance(60)) return random_.pick(candidates);
  return immediate(dtype);
}

Ref RandomWorld::declare(const Type& type, Role role) {
  const Ref ref =
      build_.tensor(fmt::format("{}{}", isa::name(role), module_.tensors.size()), type, role);
  const bool can_have_data = role == Role::input || role == Role::state || role == Role::data;
  if (can_have_data && random_.chance(40)) {
    std::vector<std::byte> bytes;
    fill_bytes(bytes, type.dtype, type.elements());
    module_.tensors[ref.index()].source = isa::DataSource::embedded;
    module_.tensors[ref.index()].offset = build_.embed(bytes);
  }
  return ref;
}

// Elements, and in one tensor of ten the NaNs with bits of their own that only data can have.
void RandomWorld::fill_bytes(std::vector<std::byte>& bytes, DType dtype, int64_t count) {
  const auto size = static_cast<size_t>(isa::byte_size(dtype));
  bytes.resize(size * static_cast<size_t>(count));
  const bool any_bits = dtype != DType::boolean && random_.chance(10);
  for (size_t at = 0; at < bytes.size(); at += size) {
    const uint64_t bits = any_bits ? random_.bits() : element(dtype);
    std::memcpy(bytes.data() + at, &bits, size);
  }
}

Ref RandomWorld::declare_param(DType dtype) {
  return build_.param(fmt::format("p{}", module_.params.size()), dtype, element(dtype));
}

Type RandomWorld::some_type() {
  if (!visible_.empty() && random_.chance(40))
    if (const Type type = build_.type_of(random_.pick(visible_)); !type.scalar) return type;
  if (!module_.tensors.empty() && random_.chance(40))
    return module_.types[random_.pick(module_.tensors).type];
  return Type::tensor(random_.pick(kTypes), shape());
}

Ref RandomWorld::some_tensor(const isa::DTypeSet& set) {
  for (int attempt = 0; attempt < 4; ++attempt)
    if (const Type type = some_type(); set.contains(type.dtype)) return tensor(type);
  return tensor(Type::tensor(dtype(set), shape()));
}

void RandomWorld::see(Ref ref) {
  if (ref.is(RefKind::value)) visible_.push_back(ref);
}

// Half of the states that have no data are filled by an instruction that writes their type.
void RandomWorld::add_initialisers() {
  std::vector<const OpInfo*> rows;
  for (const OpInfo& op : isa::all_ops()) {
    const bool generates =
        op.family == isa::Family::random || op.opcode == Opcode::Fill || op.opcode == Opcode::Iota;
    const bool has_tensor = !op.operands.empty() && op.operands[0].form == isa::Form::tensor;
    if (generates && !has_tensor) rows.push_back(&op);
  }
  build_.begin_init();
  const auto count = static_cast<uint32_t>(module_.tensors.size());
  for (uint32_t i = 0; i < count; ++i) {
    const TensorDecl decl = module_.tensors[i];
    if (decl.role != Role::state || decl.source != isa::DataSource::none || random_.chance(50))
      continue;
    const Type type = module_.types[decl.type];
    const OpInfo& op = *random_.pick(rows);
    std::vector<Ref> operands;
    for (size_t o = 0; o < op.operands.size(); ++o) {
      constexpr DType kWritten[] = {DType::i64, DType::f32, DType::boolean};
      operands.push_back(
          immediate(random_.chance(70) ? random_.pick(kWritten) : random_.pick(kTypes)));
    }
    std::vector<Ref> attributes;
    for (const isa::AttributeInfo& info : op.attributes) {
      Ref ref;
      if (info.name == "shape")
        ref = build_.integers(type.shape.dims());
      else if (info.name == "n")
        ref = build_.integer(type.shape.rank() == 1 ? type.shape[0] : 0);
      else if (info.kind == isa::AttributeKind::dtype)
        ref = isa::Builder::dtype(type.dtype);
      else if (info.required || random_.chance(50))
        ref = info.name == "axis"
                  ? build_.integer(0)
                  : immediate(isa::attribute_type(info, isa::compute_type(type.dtype)));
      attributes.push_back(ref);
    }
    const Ref destination{RefKind::tensor, i};
    (void)build_.add(op.opcode, operands, attributes,
                     std::span(&destination, 1));  // or it is refused
  }
  build_.end_init();
}

}  // namespace trek::property
