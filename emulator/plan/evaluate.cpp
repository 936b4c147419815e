#include "emulator/plan/evaluate.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "isa/convert.h"

namespace trek::plan {

using isa::DType;
using From = MicroStep::From;

std::byte* Work::at(uint32_t view, int64_t index, bool writes) {
  const View& v = plan.view(view);
  if (v.slice) {
    index += v.slice->first;
    if (v.slice->region != kNone) index += v.slice->step * world.counter(v.slice->region);
  }
  const int64_t size = isa::byte_size(v.type.dtype);
  const int64_t begin = plan.buffers[v.buffer].offset + index * size;
  const auto holds = [&](const Box& box) {
    if (box.buffer != v.buffer || box.write != writes || begin < box.begin) return false;
    const int64_t ahead = begin - box.begin;
    if (box.rows == 1) return ahead + size <= box.row_bytes;
    return ahead / box.stride < box.rows && ahead % box.stride + size <= box.row_bytes;
  };
  if (last_box_ < boxes_.size() && holds(boxes_[last_box_])) return world.arena.data() + begin;
  for (size_t i = 0; i < boxes_.size(); ++i)
    if (holds(boxes_[i])) {
      last_box_ = i;
      return world.arena.data() + begin;
    }
  if (world.violation.empty())
    world.violation =
        fmt::format("{} [{}, {}) {}s element {} of {}, outside its boxes",
                    isa::info(node.opcode).mnemonic, task.first, task.first + task.count,
                    writes ? "write" : "read", index, plan.buffers[v.buffer].name);
  return nullptr;
}

uint64_t Work::read(Operand operand, int64_t index) {
  switch (operand.kind) {
    case Operand::Kind::view: {
      const isa::Type& type = plan.view(operand.index).type;
      uint64_t bits = 0;
      if (const std::byte* from = at(operand.index, type.scalar ? 0 : index, false))
        std::memcpy(&bits, from, static_cast<size_t>(isa::byte_size(type.dtype)));
      return bits;
    }
    case Operand::Kind::constant: {
      const isa::Constant& constant = plan.constants[operand.index];
      const int size = isa::byte_size(constant.dtype);
      return size == 8 ? constant.bits : constant.bits & ((uint64_t{1} << (8 * size)) - 1);
    }
    case Operand::Kind::counter:
      return static_cast<uint64_t>(world.counter(operand.index));
    default:
      return operand.index;
  }
}

DType Work::type_of(Operand operand) const {
  switch (operand.kind) {
    case Operand::Kind::view:
      return plan.view(operand.index).type.dtype;
    case Operand::Kind::constant:
      return plan.constants[operand.index].dtype;
    default:
      return DType::i64;
  }
}

void Work::write(uint32_t view, int64_t index, uint64_t bits) {
  if (std::byte* to = at(view, index, true))
    std::memcpy(to, &bits, static_cast<size_t>(isa::byte_size(plan.view(view).type.dtype)));
}

uint64_t Work::source(int64_t index) {
  if (node.prologue.empty()) return operand(0, index);
  return run(node.prologue, type(0).shape, index, {}, nullptr);
}

void Work::give(size_t i, int64_t index, uint64_t bits) {
  if (i == 0 && !node.chain.empty())
    bits = run(node.chain, result_type(0).shape, index, {{&bits, 1}, {}}, nullptr);
  if (node.put) index = put_index(*node.put, result_type(i).shape, index);
  write(node.results[i], index, bits);
}

void Work::give_all(int64_t index, std::span<const uint64_t> mains) {
  Values values{};
  run_steps(node.chain, result_type(0).shape, index, {mains, {}}, nullptr, values);
  for (size_t i = 0; i < node.results.size(); ++i) {
    const MicroStep::Input& given = node.gives[i];
    write(node.results[i], index,
          given.from == From::main ? mains[given.index] : values[given.index]);
  }
}

double Work::fallback(std::string_view name) const {
  const isa::OpInfo& op = isa::info(node.opcode);
  return op.attributes[static_cast<size_t>(op.attribute(name))].fallback;
}

int64_t Work::integer(std::string_view name, size_t i) {
  const Attribute& given = attribute(node, name);
  if (!given.given) return static_cast<int64_t>(fallback(name));
  return value_as<int64_t>(type_of(given.items[i]), read(given.items[i], 0));
}

uint64_t Work::run(const std::vector<MicroStep>& program, const isa::Shape& over, int64_t index,
                   const Given& given, Faulted* fault) {
  Values values{};
  run_steps(program, over, index, given, fault, values);
  return values[program.size() - 1];
}

void Work::run_steps(const std::vector<MicroStep>& program, const isa::Shape& over, int64_t index,
                     const Given& given, Faulted* fault, Values& values) {
  for (size_t s = 0; s < program.size(); ++s) {
    const MicroStep& step = program[s];
    const auto input = [&](size_t i, DType want) -> uint64_t {
      const MicroStep::Input& in = step.inputs[i];
      if (in.from == From::none) return 0;
      if (in.from == From::step) return values[in.index];
      if (in.from == From::main) return given.mains[in.index];
      if (in.from != From::operand) return given.phases[in.index];
      const isa::Type& of = type(in.index);
      const int64_t place =
          of.scalar || of.shape == over ? index : broadcast_index(over, of.shape, index);
      const uint64_t bits = operand(in.index, place);
      return of.scalar ? cast_bits(of.dtype, want, bits) : bits;
    };
    const auto number = [&](size_t i) -> uint64_t {
      const MicroStep::Input& in = step.attributes[i];
      const DType want = number_type(step.from);
      if (in.from == From::operand)
        return cast_bits(type(in.index).dtype, want, operand(in.index, 0));
      const isa::OpInfo& op = isa::info(step.opcode);
      return i < op.attributes.size() && op.attributes[i].has_default
                 ? isa::double_to_bits(want == DType::f64 ? DType::f64 : DType::f32,
                                       op.attributes[i].fallback)
                 : 0;
    };
    const DType first = step.opcode == isa::Opcode::Where ? DType::boolean : step.from;
    const PointwiseInput all{input(0, first), input(1, step.from), input(2, step.from), number(0),
                             number(1)};
    if (fault != nullptr && divides_by_zero(step.opcode, step.from, all)) {
      *fault = Fault{isa::TrapCode::DivideByZero, index};
      return;
    }
    values[s] = apply(step.opcode, step.from, step.to, all);
  }
}

namespace {

// A node that is nothing but its chain: pointwise on tensors or on scalars.
Faulted evaluate_chain(Work& work) {
  const isa::Type& type = work.result_type(0);
  const int64_t first = work.node.tiling == Tiling::elements ? work.task.first : 0;
  const int64_t count = work.node.tiling == Tiling::elements ? work.task.count : type.elements();
  for (int64_t i = first; i < first + count; ++i) {
    Faulted fault;
    const uint64_t bits = work.run(work.node.chain, type.shape, i, {}, &fault);
    if (fault) return fault;
    work.write(work.node.results[0], i, bits);
  }
  return std::nullopt;
}

}  // namespace

Faulted evaluate(Work& work) {
  if (work.node.by_rows()) return evaluate_rows(work);
  if (!work.node.chain.empty() && work.node.main_type.dtype == DType::none)
    return evaluate_chain(work);
  switch (isa::info(work.node.opcode).family) {
    case isa::Family::move:
      return evaluate_move(work);
    case isa::Family::pointwise:
      return evaluate_chain(work);
    case isa::Family::reduce:
      return work.node.unit == Unit::order ? evaluate_order(work) : evaluate_reduce(work);
    case isa::Family::matrix:
      return evaluate_matrix(work);
    case isa::Family::loss:
      return evaluate_loss(work);
    case isa::Family::optimizer:
      return evaluate_optimizer(work);
    case isa::Family::random:
      return work.node.tiling == Tiling::whole && work.node.opcode == isa::Opcode::Permutation
                 ? evaluate_order(work)
                 : evaluate_random(work);
    case isa::Family::control:
      return evaluate_control(work);
  }
  return std::nullopt;
}

}  // namespace trek::plan
