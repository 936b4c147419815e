// Control: regions, calls, streams, and scalars of tensors. The first half is how the machine moves
// values between regions and frames; the second half the instructions.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "emulator/ref/execute.h"
#include "emulator/ref/machine.h"

namespace trek::ref {

using isa::Opcode;
using isa::Ref;
using isa::RefKind;
using isa::TrapCode;

// ---- the machine ---------------------------------------------------------------------------------

// Brings the operands of the current instruction, from `first` on, into carried_. Tensors are shared.
void Machine::take_operands(size_t first) {
  carried_.clear();
  for (Ref ref : module_.operands(current()).subspan(first)) {
    Slot value;
    if (ref.is(RefKind::constant) || ref.is(RefKind::param) || type(ref).scalar) {
      value.bits = scalar_bits(ref);
    } else {
      value.buffer = slot(ref).buffer;
    }
    carried_.push_back(std::move(value));
  }
}

void Machine::assign(Ref to, Slot&& value) {
  Slot& place = slot(to);
  place.buffer = std::move(value.buffer);
  place.bits = value.bits;
}

void Machine::give(std::span<const Ref> to) {
  for (size_t i = 0; i < to.size(); ++i) assign(to[i], std::move(carried_[i]));
  carried_.clear();
}

void Machine::release(std::span<const uint32_t> registers) {
  for (uint32_t value : registers) frame_->values[value] = {};
}

void Machine::clear_region(const Region& region) {
  const auto [first, last] = frame_->map->registers(region.opener);
  for (uint32_t value = first; value < last; ++value) frame_->values[value] = {};
}

// Goes on after a statement whose last yield is given, with its results in carried_.
void Machine::leave_region(uint32_t last_yield) {
  clear_region(frame_->regions.back());
  const uint32_t opener = frame_->regions.back().opener;
  frame_->regions.pop_back();
  uint32_t owner = opener;
  if (frame_->function->code[opener].opcode == Opcode::Else)
    owner = frame_->map->opener(opener - 1);  // the yield before it is that of the `if`
  give(module_.results(frame_->function->code[owner]));
  release(frame_->map->dead_on_exit(last_yield));
  release(frame_->map->dead_after(owner));  // results that nothing reads
  jump(last_yield + 1);
}

// Gives a loop's registers their values for the trip that begins.
void Machine::begin_trip() {
  const Region& region = frame_->regions.back();
  const isa::Instruction& opener = frame_->function->code[region.opener];
  std::span<const Ref> registers = module_.list(module_.attributes(opener)[0]);
  if (opener.opcode == Opcode::Loop) {
    // from + done × step lies before the bound, so it is what wrapping arithmetic gives.
    slot(registers[0]).bits =
        static_cast<uint64_t>(region.from) + region.done * static_cast<uint64_t>(region.step);
    registers = registers.subspan(1);
  }
  give(registers);
  jump(region.opener + 1);
}

void Machine::report_progress(const Region& region) {
  if (loop_level_ <= 2 && options_->progress)
    options_->progress(loop_level_ - 1, region.done, region.trips);
}

void Machine::enter_loop(int64_t from, int64_t step, uint64_t trips) {
  take_operands(3);
  frame_->regions.push_back({frame_->at, trips, 0, from, step});
  ++loop_level_;
  report_progress(frame_->regions.back());
  if (trips > 0) return begin_trip();
  --loop_level_;
  leave_region(frame_->map->end(frame_->at));
}

void Machine::enter_while() {
  take_operands(0);
  frame_->regions.push_back({.opener = frame_->at});
  begin_trip();
}

void Machine::enter_if(bool condition) {
  const CodeMap& map = *frame_->map;
  const uint32_t first_end = map.end(frame_->at);
  const uint32_t last_end = map.statement_end(frame_->at);
  carried_.clear();
  if (condition) {
    frame_->regions.push_back({.opener = frame_->at});
  } else if (last_end != first_end) {
    frame_->regions.push_back({.opener = first_end + 1});
    jump(first_end + 2);
  } else {
    release(map.dead_on_exit(last_end));
    jump(last_end + 1);
  }
}

void Machine::test(bool condition) {
  if (condition) return;
  // The results are the carried registers as this trip began; they are not written inside.
  const uint32_t opener = frame_->regions.back().opener;
  const isa::Instruction& instruction = frame_->function->code[opener];
  carried_.clear();
  for (Ref ref : module_.list(module_.attributes(instruction)[0])) carried_.push_back(slot(ref));
  leave_region(frame_->map->end(opener));
}

void Machine::yield() {
  take_operands(0);
  Region& region = frame_->regions.back();
  const Opcode opcode = frame_->function->code[region.opener].opcode;
  if (opcode == Opcode::If || opcode == Opcode::Else)
    return leave_region(frame_->map->statement_end(region.opener));
  if (opcode == Opcode::Loop) {
    ++region.done;
    report_progress(region);
    if (region.done == region.trips) {
      --loop_level_;
      return leave_region(frame_->at);
    }
  }
  clear_region(region);
  begin_trip();
  may_stop_ = true;
}

void Machine::call(uint32_t callee) {
  const isa::Function& function = module_.functions[callee];
  const auto arguments = module_.operands(current());
  take_operands(0);
  for (uint32_t i = 0; i < function.parameters; ++i) {
    if (function.inplace[i] == 0) continue;
    carried_[i].buffer.reset();
    carried_[i].place = &slot(arguments[i]);
  }
  push_frame(callee);
  for (uint32_t i = 0; i < function.parameters; ++i) frame_->values[i] = std::move(carried_[i]);
  carried_.clear();
}

void Machine::return_values() {
  take_operands(0);
  pop_frame();
  if (frame_ == nullptr) return;
  // The caller stands at its `call`.
  give(module_.results(current()));
  release(frame_->map->dead_after(frame_->at));
  ++frame_->at;
}

// ---- regions and calls ---------------------------------------------------------------------------

namespace {

int64_t integer_operand(Step& step, size_t i) {
  return static_cast<int64_t>(step.machine().scalar_bits(step.operand_ref(i)));
}

bool condition(Step& step) { return step.machine().scalar_bits(step.operand_ref(0)) != 0; }

// How often a loop's counter is before its bound. The difference of two i64 fits a u64.
uint64_t trip_count(int64_t from, int64_t until, int64_t step) {
  if (step > 0 ? from >= until : from <= until) return 0;
  const auto distance = step > 0 ? static_cast<uint64_t>(until) - static_cast<uint64_t>(from)
                                 : static_cast<uint64_t>(from) - static_cast<uint64_t>(until);
  const auto stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  return (distance - 1) / stride + 1;
}

// The row-major index of an element, or a trap where it lies outside its tensor.
Status find_element(Step& step, int64_t& element) {
  const isa::Shape& shape = step.operand(0).shape();
  const Step::Integers at = step.integers("at");
  element = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (at[axis] < 0 || at[axis] >= shape[axis])
      return trap(
          TrapCode::IndexOutOfRange, -1,
          fmt::format("index {} is outside axis {} of size {}", at[axis], axis, shape[axis]));
    element = element * shape[axis] + at[axis];
  }
  return nullptr;
}

}  // namespace

Status execute(Op<Opcode::Loop>, Step& step) {
  const int64_t from = integer_operand(step, 0);
  const int64_t until = integer_operand(step, 1);
  const int64_t stride = integer_operand(step, 2);
  if (stride == 0) return trap(TrapCode::InvalidArgument, -1, "a loop with step 0 does not end");
  step.machine().enter_loop(from, stride, trip_count(from, until, stride));
  return nullptr;
}

Status execute(Op<Opcode::While>, Step& step) {
  step.machine().enter_while();
  return nullptr;
}

Status execute(Op<Opcode::Test>, Step& step) {
  step.machine().test(condition(step));
  return nullptr;
}

Status execute(Op<Opcode::If>, Step& step) {
  step.machine().enter_if(condition(step));
  return nullptr;
}

// An `else` is entered by its `if`, and jumped over after the region before it.
Status execute(Op<Opcode::Else>, Step&) { return nullptr; }

Status execute(Op<Opcode::Yield>, Step& step) {
  step.machine().yield();
  return nullptr;
}

Status execute(Op<Opcode::Call>, Step& step) {
  step.machine().call(step.attribute("function").index());
  return nullptr;
}

Status execute(Op<Opcode::Return>, Step& step) {
  step.machine().return_values();
  return nullptr;
}

// ---- scalars of tensors --------------------------------------------------------------------------

Status execute(Op<Opcode::Load>, Step& step) {
  int64_t element = 0;
  if (Status status = find_element(step, element)) return status;
  const Tensor& x = step.operand(0);
  const Tensor& r = step.result(0);
  step.kernels().convert(r.data, r.dtype(), x.data + element * isa::byte_size(x.dtype()), x.dtype(),
                         1);
  return nullptr;
}

Status execute(Op<Opcode::Store>, Step& step) {
  int64_t element = 0;
  if (Status status = find_element(step, element)) return status;
  const Tensor& x = step.operand(0);
  const Tensor& value = step.operand(1);
  step.kernels().convert(x.data + element * isa::byte_size(x.dtype()), x.dtype(), value.data,
                         value.dtype(), 1);
  return nullptr;
}

Status execute(Op<Opcode::AssertFinite>, Step& step) {
  const Tensor& x = step.operand(0);
  const int64_t found = step.kernels().first_not_finite(x.data, x.dtype(), x.elements());
  if (found == x.elements()) return nullptr;
  double value = 0;
  step.kernels().convert(&value, DType::f64, x.data + found * isa::byte_size(x.dtype()), x.dtype(),
                         1);
  const std::string_view what = value != value ? "NaN" : value > 0 ? "inf" : "-inf";
  return trap(TrapCode::NotFinite, found, fmt::format("element {} is {}", found, what));
}

Status execute(Op<Opcode::Trap>, Step& step) {
  return trap(TrapCode::Explicit, -1, std::string(step.string("message")));
}

// ---- streams -------------------------------------------------------------------------------------

Status execute(Op<Opcode::Emit>, Step& step) {
  const Tensor& x = step.operand(0);
  const auto& emit = step.machine().options().emit;
  if (emit) emit({step.string("name"), *x.type, std::span(x.data, static_cast<size_t>(x.bytes()))});
  return nullptr;
}

Status execute(Op<Opcode::Next>, Step& step) {
  const Tensor& block = step.result(0);
  const std::span bytes(block.data, static_cast<size_t>(block.bytes()));
  const StreamSource& source = step.machine().streams()[step.operand_ref(0).index()];
  const bool more = source && source(bytes);
  if (!more && !bytes.empty()) std::memset(bytes.data(), 0, bytes.size());
  const uint64_t bits = more ? 1 : 0;
  std::memcpy(step.result(1).data, &bits, 1);
  return nullptr;
}

}  // namespace trek::ref
