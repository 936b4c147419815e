#include "emulator/ref/machine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "emulator/ref/execute.h"

namespace trek::ref {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Ref;
using isa::RefKind;
using isa::Type;

const Type& scalar_type_of(isa::DType dtype) {
  static const auto kTypes = [] {
    std::array<Type, isa::kDTypeCount> types;
    for (size_t i = 0; i < types.size(); ++i)
      types[i] = Type::make_scalar(static_cast<isa::DType>(i));
    return types;
  }();
  return kTypes[static_cast<size_t>(dtype)];
}

uint64_t nanoseconds(std::chrono::steady_clock::duration duration) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

}  // namespace

Machine::Machine(const isa::Module& module, const Kernels& kernels, const LoadOptions& options)
    : module_(module),
      kernels_(kernels),
      memory_(options.memory_limit),
      pool_(options.threads),
      seed_(options.seed),
      tensors_(module.tensors.size()),
      streams_(module.tensors.size()),
      maps_(module.functions.size() + 1),
      step_(*this),
      executions_(module.functions.size()) {
  for (const isa::Param& param : module.params)
    params_.push_back(module.constants[param.value].bits);
}

const CodeMap& Machine::map_of(uint32_t index) {
  auto& map = maps_[index == kInitFunction ? maps_.size() - 1 : index];
  if (!map) map = std::make_unique<CodeMap>(module_, function_at(index));
  return *map;
}

Slot& Machine::slot(Ref ref) {
  if (ref.is(RefKind::tensor)) return tensors_[ref.index()];
  Slot& slot = frame_->values[ref.index()];
  return slot.place != nullptr ? *slot.place : slot;
}

bool Machine::belongs_to_caller(Ref ref) const {
  return ref.is(RefKind::value) && frame_->values[ref.index()].place != nullptr;
}

const Type& Machine::type(Ref ref) const {
  switch (ref.kind()) {
    case RefKind::tensor:
      return module_.types[module_.tensors[ref.index()].type];
    case RefKind::value:
      return module_.types[frame_->function->values[ref.index()].type];
    case RefKind::param:
      return scalar_type_of(module_.params[ref.index()].dtype);
    default:
      return scalar_type_of(module_.constants[ref.index()].dtype);
  }
}

uint64_t Machine::scalar_bits(Ref ref) {
  if (ref.is(RefKind::constant)) return module_.constants[ref.index()].bits;
  if (ref.is(RefKind::param)) return params_[ref.index()];
  return frame_->values[ref.index()].bits;
}

bool Machine::dies_here(Ref ref) const { return frame_->map->dies_at(ref.index(), frame_->at); }

void Machine::push_frame(uint32_t index) {
  std::unique_ptr<Frame> frame;
  if (spare_frames_.empty()) {
    frame = std::make_unique<Frame>();
  } else {
    frame = std::move(spare_frames_.back());
    spare_frames_.pop_back();
  }
  frame->function = &function_at(index);
  frame->map = &map_of(index);
  frame->index = index;
  frame->at = 0;
  frame->values.clear();
  frame->values.resize(frame->function->values.size());
  frame->regions.clear();
  frames_.push_back(std::move(frame));
  frame_ = frames_.back().get();
}

void Machine::pop_frame() {
  frame_->values.clear();
  spare_frames_.push_back(std::move(frames_.back()));
  frames_.pop_back();
  frame_ = frames_.empty() ? nullptr : frames_.back().get();
}

RunResult Machine::run(uint32_t function, const RunOptions& options) {
  options_ = &options;
  loop_level_ = 0;
  may_stop_ = true;
  began_ = std::chrono::steady_clock::now();
  auto last = began_;
  const bool timed = options.profile || static_cast<bool>(options.trace);
  const uint64_t most = options.instruction_limit == 0 ? UINT64_MAX : options.instruction_limit;
  uint64_t executed = 0;
  Status status;
  RunResult result;
  push_frame(function);
  while (frame_ != nullptr) {
    if (std::exchange(may_stop_, false) && options.stop != nullptr &&
        options.stop->load(std::memory_order_relaxed)) {
      result = stopped_at(Outcome::stopped, "");
      break;
    }
    if (executed == most) {
      result = stopped_at(Outcome::limit,
                          fmt::format("instructions: {} executed, as many as allowed", most));
      break;
    }
    ++executed;
    const Place place{frame_->index, frame_->at};
    status = execute_next();
    if (timed) record(last, place);
    if (status) {
      result = finish(std::move(status));
      break;
    }
  }
  while (frame_ != nullptr) pop_frame();
  carried_.clear();
  if (function != kInitFunction) instructions_ += executed;
  return result;
}

Status Machine::execute_next() {
  Frame* const frame = frame_;
  const uint32_t at = frame->at;
  const Instruction& instruction = frame->function->code[at];
  next_ = at + 1;
  Status status = step_.begin(*frame->function, instruction);
  if (!status) status = find_execute(instruction.opcode)(step_);
  if (status) return status;
  step_.commit();
  // A `return` has ended the frame, a `call` begun another: this one goes on when that returns. A
  // `yield` has cleared its region, and may have begun the next trip.
  if (instruction.opcode == Opcode::Return) return status;
  if (instruction.opcode != Opcode::Yield)
    for (uint32_t value : frame->map->dead_after(at)) frame->values[value] = {};
  if (frame == frame_) frame->at = next_;
  return status;
}

void Machine::record(std::chrono::steady_clock::time_point& last, Place place) {
  const auto now = std::chrono::steady_clock::now();
  if (options_->profile && place.function != kInitFunction) {
    auto& executions = executions_[place.function];
    if (executions.empty()) executions.resize(function_at(place.function).code.size());
    Execution& execution = executions[place.instruction];
    ++execution.calls;
    execution.nanoseconds += nanoseconds(now - last);
  }
  if (options_->trace)
    options_->trace(place.function, place.instruction, nanoseconds(last - began_),
                    nanoseconds(now - began_));
  last = now;
}

RunResult Machine::stopped_at(Outcome outcome, std::string detail) const {
  RunResult result;
  result.outcome = outcome;
  result.place = {frame_->index, frame_->at};
  result.detail = std::move(detail);
  return result;
}

RunResult Machine::finish(Status status) {
  RunResult result = stopped_at(status->outcome, status->detail);
  if (status->outcome != Outcome::trapped) return result;
  result.detail.clear();
  Trap trap;
  trap.code = status->code;
  trap.place = result.place;
  trap.element = status->element;
  trap.detail = std::move(status->detail);
  for (size_t i = frames_.size() - 1; i-- > 0;)
    trap.callers.push_back({frames_[i]->index, frames_[i]->at});
  result.trap = std::move(trap);
  return result;
}

}  // namespace trek::ref
