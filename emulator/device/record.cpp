#include "emulator/device/record.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "emulator/device/element.h"
#include "emulator/plan/geometry.h"
#include "isa/convert.h"

namespace trek::device {

using plan::Attribute;
using PlanOperand = plan::Operand;

Dimensions dimensions_of(const isa::Shape& shape) {
  Dimensions dimensions(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int i = shape.rank(); i-- > 0;) {
    dimensions[static_cast<size_t>(i)] = {shape[i], stride};
    stride *= shape[i];
  }
  return dimensions;
}

Dimensions broadcast(const isa::Shape& to, const isa::Shape& from) {
  const Dimensions own = dimensions_of(from);
  const int lead = to.rank() - from.rank();
  Dimensions dimensions;
  for (int i = 0; i < to.rank(); ++i) {
    const bool repeats = i < lead || from[i - lead] == 1;
    dimensions.push_back({to[i], repeats ? 0 : own[static_cast<size_t>(i - lead)].stride});
  }
  return dimensions;
}

uint64_t register_form(const isa::Constant& constant) {
  std::byte bytes[8];
  std::memcpy(bytes, &constant.bits, sizeof(bytes));
  return load64(bytes, constant.dtype, 0);
}

namespace {

// Division of indices below 2^31 by a size, by a product: size × magic is 2^shift and less than `size`
// more, and 2^shift is at least 2^31 × size.
Axis axis_of(const Dimension& dimension, bool small) {
  Axis axis{dimension.size, dimension.stride, 0, 0};
  if (!small || dimension.size < 1) return axis;
  const auto size = static_cast<uint64_t>(dimension.size);
  axis.shift = 31 + static_cast<uint32_t>(std::bit_width(size - 1));
  axis.magic = static_cast<uint32_t>(((uint64_t{1} << axis.shift) + size - 1) / size);
  return axis;
}

bool is_same_axis(const Axis& a, const Axis& b) {
  return a.size == b.size && a.stride == b.stride && a.magic == b.magic && a.shift == b.shift;
}

bool is_small(const Dimensions& dimensions) {
  int64_t elements = 1;
  for (const Dimension& dimension : dimensions) elements *= dimension.size;
  return elements < int64_t{1} << 31;
}

}  // namespace

Map Record::axes(const Dimensions& dimensions) {
  const bool small = is_small(dimensions);
  std::vector<Axis> wanted;
  for (const Dimension& dimension : dimensions) wanted.push_back(axis_of(dimension, small));
  // Operands that are broadcast alike have one map.
  const auto at = std::ranges::search(axes_, wanted, is_same_axis).begin();
  const Map map{static_cast<uint16_t>(at - axes_.begin()), static_cast<uint8_t>(dimensions.size()),
                Map::axes};
  if (at == axes_.end()) axes_.insert(axes_.end(), wanted.begin(), wanted.end());
  return map;
}

Map Record::map(const Dimensions& dimensions) {
  Dimensions merged;
  for (const Dimension& dimension : dimensions) {
    if (dimension.size == 1) continue;
    if (!merged.empty() && merged.back().stride == dimension.stride * dimension.size) {
      merged.back().size *= dimension.size;
      merged.back().stride = dimension.stride;
    } else {
      merged.push_back(dimension);
    }
  }
  if (merged.empty() || (merged.size() == 1 && merged[0].stride == 0)) return {0, 0, Map::one};
  if (merged.size() == 1 && merged[0].stride == 1) return {0, 0, Map::same};
  return axes(merged);
}

// Where a tensor's elements lie.
void Record::lie_in(const plan::View& view, Operand& entry) {
  entry.offset = plan_.buffers[view.buffer].offset;
  entry.dtype = static_cast<uint8_t>(view.type.dtype);
  if (!view.slice) return;
  entry.offset += view.slice->first * isa::byte_size(view.type.dtype);
  if (view.slice->region == plan::kNone) return;
  entry.slice = static_cast<uint8_t>(1 + axes({{1, view.slice->step}}).first);
  counter_of_slices_ = static_cast<uint8_t>(
      1 + scalar({PlanOperand::Kind::counter, view.slice->region}, DType::i64));
}

uint32_t Record::operand(PlanOperand from, const isa::Type& type, Map map) {
  Operand entry{};
  entry.scalar = kNoScalar;
  entry.map = map;
  entry.elements = type.scalar ? 1 : type.elements();
  if (from.kind == PlanOperand::Kind::view) lie_in(plan_.view(from.index), entry);
  const bool is_number = from.kind == PlanOperand::Kind::constant ||
                         from.kind == PlanOperand::Kind::counter ||
                         (from.kind == PlanOperand::Kind::view && type.scalar);
  if (is_number) entry.scalar = static_cast<uint8_t>(scalar(from, type.dtype));
  operands_.push_back(entry);
  return static_cast<uint32_t>(operands_.size() - 1);
}

uint32_t Record::part(Operand of, int64_t bytes, Map map) {
  of.offset += bytes;
  of.map = map;
  operands_.push_back(of);
  return static_cast<uint32_t>(operands_.size() - 1);
}
uint32_t Record::part_of_operand(uint32_t entry, int64_t bytes, Map map) {
  return part(operands_[entry], bytes, map);
}
void Record::begin_at(uint32_t entry, int64_t elements) {
  Operand& moved = operands_[entry];
  moved.offset += elements * size_of(static_cast<DType>(moved.dtype));
}
uint32_t Record::part_of_result(uint32_t entry, int64_t bytes, Map map) {
  return part(results_[entry], bytes, map);
}

void Record::result(uint32_t index) {
  const plan::View& view = plan_.view(index);
  Operand entry{};
  entry.scalar = kNoScalar;
  lie_in(view, entry);
  entry.elements = view.type.scalar ? 1 : view.type.elements();
  entry.map = {0, 0, Map::same};
  results_.push_back(entry);
}

void Record::put_result(uint32_t entry, int64_t elements, Map map) {
  Operand& put = results_[entry];
  put.offset += elements * size_of(static_cast<DType>(put.dtype));
  put.map = map;
}

bool Record::reads_row(uint32_t entry, int64_t columns) const {
  const Map& map = operands_[entry].map;
  if (map.kind != Map::axes || map.count != 2) return false;
  const Axis& rows = axes_[map.first];
  const Axis& row = axes_[map.first + 1u];
  return rows.stride == 0 && row.stride == 1 && row.size == columns;
}

uint32_t Record::add(const Scalar& scalar) {
  for (uint32_t i = 0; i < scalars_.size(); ++i)
    if (std::memcmp(&scalars_[i], &scalar, sizeof(scalar)) == 0) return i;
  if (scalars_.size() == kMaxScalars) {
    refusal =
        fmt::format("{} reads more than {} scalars", isa::info(of_.opcode).mnemonic, kMaxScalars);
    return 0;
  }
  scalars_.push_back(scalar);
  return static_cast<uint32_t>(scalars_.size() - 1);
}

uint32_t Record::constant(DType type, uint64_t bits) {
  Scalar scalar{};
  scalar.kind = Scalar::constant;
  scalar.value = static_cast<int64_t>(bits);
  scalar.from = scalar.to = static_cast<uint8_t>(type);
  return add(scalar);
}

uint32_t Record::scalar(PlanOperand from, DType want) {
  Scalar scalar{};
  scalar.to = static_cast<uint8_t>(want);
  switch (from.kind) {
    case PlanOperand::Kind::view: {
      const plan::View& view = plan_.view(from.index);
      scalar.kind = Scalar::memory;
      scalar.from = static_cast<uint8_t>(view.type.dtype);
      scalar.value = plan_.buffers[view.buffer].offset;
      return add(scalar);
    }
    case PlanOperand::Kind::constant: {
      const isa::Constant& value = plan_.constants[from.index];
      return constant(want, cast(value.dtype, want, register_form(value)));
    }
    case PlanOperand::Kind::counter: {
      const auto found = std::find(counters_.begin(), counters_.end(), from.index);
      scalar.kind = Scalar::counter;
      scalar.from = static_cast<uint8_t>(DType::i64);
      scalar.value = found - counters_.begin();
      if (found == counters_.end()) counters_.push_back(from.index);
      return add(scalar);
    }
    default:
      return constant(want, cast(DType::i64, want, from.index));
  }
}

// Attributes are made one after the other, but a scalar that is there already keeps its place: so they are
// repeated in the table at the end.
void Record::attribute(uint32_t scalar_index) { attributes_.push_back(scalar_index); }

void Record::real_attribute(std::string_view name, DType want) {
  const Attribute& given = plan::attribute(of_, name);
  if (given.given) return attribute(scalar(given.items[0], want));
  const isa::OpInfo& op = isa::info(of_.opcode);
  const int at = op.attribute(name);
  const double fallback = at < 0 ? 0 : op.attributes[static_cast<size_t>(at)].fallback;
  const DType real = want == DType::f64 ? DType::f64 : DType::f32;
  attribute(constant(want, isa::double_to_bits(real, fallback)));
}

void Record::index_attribute(std::string_view name) {
  const Attribute& given = plan::attribute(of_, name);
  if (given.given) return attribute(scalar(given.items[0], DType::i64));
  const isa::OpInfo& op = isa::info(of_.opcode);
  const double fallback = op.attributes[static_cast<size_t>(op.attribute(name))].fallback;
  attribute(constant(DType::i64, static_cast<uint64_t>(static_cast<int64_t>(fallback))));
}

namespace {

template <typename T>
uint32_t lay(std::vector<std::byte>& bytes, const std::vector<T>& table) {
  const size_t at = (bytes.size() + 15) / 16 * 16;
  bytes.resize(at + table.size() * sizeof(T));
  if (!table.empty()) std::memcpy(bytes.data() + at, table.data(), table.size() * sizeof(T));
  return static_cast<uint32_t>(at);
}

}  // namespace

namespace {

// Types whose elements a flat or a quick program writes, and reads.
bool writes_fours(const Operand& of) {
  const auto type = static_cast<DType>(of.dtype);
  return type == DType::bf16 || size_of(type) == 4;
}
bool reads_fours(const Operand& of) {
  const auto type = static_cast<DType>(of.dtype);
  return writes_fours(of) || type == DType::u8 || type == DType::boolean;
}

}  // namespace

// Whether places under a map come without a division.
bool Record::is_magic(Map map) const {
  for (uint32_t i = 1; map.kind == Map::axes && i < map.count; ++i)
    if (axes_[map.first + i].magic == 0) return false;
  return true;
}

// Whether four elements from a multiple of four on lie side by side under a map, from a multiple of four on,
// or are one.
bool Record::keeps_fours(Map map) const {
  if (map.kind != Map::axes) return true;
  for (uint32_t i = 0; i < map.count; ++i) {
    const Axis& axis = axes_[map.first + i];
    const bool last = i + 1u == map.count;
    if (last ? axis.stride != 1 || axis.size % 4 != 0 : axis.stride % 4 != 0) return false;
  }
  return is_magic(map);
}

bool Record::is_flat(const Program& program) const {
  const auto in_line = [](const Operand& of) {
    return of.offset % (4 * int64_t{size_of(static_cast<DType>(of.dtype))}) == 0;
  };
  for (uint32_t l = 0; l < program.loads; ++l) {
    const Operand& from = operands_[loads_[program.first_load + l].operand];
    const bool one = from.map.kind == Map::one;
    if (!reads_fours(from) || (!one && !(in_line(from) && keeps_fours(from.map)))) return false;
  }
  return program.narrow != 0 &&
         std::all_of(results_.begin(), results_.end(),
                     [&](const Operand& of) { return writes_fours(of) && in_line(of); });
}

// How a program on floats is executed by itself.
Quick Record::way_of(const Program& program) const {
  if (program.narrow == 0) return Quick::no;
  for (uint32_t l = 0; l < program.loads; ++l) {
    const Operand& from = operands_[loads_[program.first_load + l].operand];
    if (!reads_fours(from) || !is_magic(from.map)) return Quick::no;
  }
  const auto is_plain = [](const Scalar& scalar) {
    return scalar.kind == Scalar::constant ||
           (scalar.kind == Scalar::memory && scalar.from == scalar.to &&
            size_of(static_cast<DType>(scalar.to)) == 4);
  };
  if (!std::all_of(scalars_.begin(), scalars_.end(), is_plain)) return Quick::no;
  const auto first = steps_.begin() + program.first_step;
  const auto last = first + program.steps;
  const auto simple = [](const Step& step) {
    return is_simple(static_cast<isa::Opcode>(step.opcode), static_cast<DType>(step.from),
                     static_cast<DType>(step.to));
  };
  if (std::all_of(first, last, simple)) return Quick::simple;
  const auto on_floats = [&](const Step& step) {
    const auto to_type = static_cast<DType>(step.to);
    return simple(step) || (static_cast<isa::Opcode>(step.opcode) != isa::Opcode::Cast &&
                            form_of(static_cast<DType>(step.from)) == Form::real32 &&
                            (to_type == DType::boolean || form_of(to_type) == Form::real32));
  };
  return std::all_of(first, last, on_floats) ? Quick::calls : Quick::no;
}

// What describe() takes for rows or for a move may turn out to be none.
Quick Record::quick() const {
  const auto wanted = static_cast<Quick>(node.quick);
  switch (static_cast<Kind>(node.kind)) {
    case Kind::program:
      return writes_fours(results_[0]) ? way_of(node.deliver[0]) : Quick::no;
    case Kind::reduce: {
      const bool is_rows = wanted == Quick::rows && writes_fours(results_[0]) &&
                           way_of(node.fetch[0]) == Quick::simple &&
                           way_of(node.deliver[0]) != Quick::no;
      return is_rows ? wanted : Quick::no;
    }
    default: {
      const bool is_move = wanted == Quick::move && is_magic(operands_[node.move.quick_from].map) &&
                           is_magic(operands_[node.move.quick_to].map);
      return is_move ? wanted : Quick::no;
    }
  }
}

Described Record::finish() {
  for (Program* program : {&node.fetch[0], &node.fetch[1], &node.deliver[0], &node.deliver[1]})
    program->flat = is_flat(*program) ? 1 : 0;
  if (phases) {
    phases->last.flat = is_flat(phases->last) ? 1 : 0;
    for (uint32_t p = 0; p < phases->phases; ++p)
      phases->phase[p].elements.flat = is_flat(phases->phase[p].elements) ? 1 : 0;
  }
  node.quick = static_cast<uint8_t>(quick());
  node.first_scalar = static_cast<uint16_t>(scalars_.size());
  for (uint32_t index : attributes_) {
    if (scalars_.size() == kMaxScalars) {
      refusal =
          fmt::format("{} reads more than {} scalars", isa::info(of_.opcode).mnemonic, kMaxScalars);
      break;
    }
    scalars_.push_back(scalars_[index]);
  }
  Described described;
  described.refusal = refusal;
  described.counter_regions = counters_;
  node.all_operands = static_cast<uint16_t>(operands_.size());
  node.results = static_cast<uint16_t>(results_.size());
  node.scalars = static_cast<uint16_t>(scalars_.size());
  node.steps = static_cast<uint16_t>(steps_.size());
  node.loads = static_cast<uint16_t>(loads_.size());
  node.axes = static_cast<uint16_t>(axes_.size());
  node.numbers = static_cast<uint32_t>(numbers_.size());
  std::vector<std::byte>& bytes = described.bytes;
  bytes.resize(sizeof(Node));
  node.operands_at = lay(bytes, operands_);
  node.results_at = lay(bytes, results_);
  node.scalars_at = lay(bytes, scalars_);
  node.steps_at = lay(bytes, steps_);
  node.loads_at = lay(bytes, loads_);
  node.axes_at = lay(bytes, axes_);
  node.numbers_at = lay(bytes, numbers_);
  if (phases) node.phases_at = lay(bytes, std::vector{*phases});
  bytes.resize((bytes.size() + 15) / 16 * 16);
  node.bytes = static_cast<uint32_t>(bytes.size());
  std::memcpy(bytes.data(), &node, sizeof(Node));
  return described;
}

}  // namespace trek::device
