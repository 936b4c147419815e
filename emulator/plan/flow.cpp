#include "emulator/plan/flow.h"

#include <utility>

#include <fmt/format.h>

#include "emulator/plan/geometry.h"

namespace trek::plan {
namespace {

using isa::Module;
using isa::Opcode;
using isa::Ref;
using isa::RefKind;
using Kind = Name::Kind;

constexpr size_t kMaxSteps = size_t{1} << 22;
constexpr int kMaxCallDepth = 1000;

class Inliner {
 public:
  Inliner(const Module& module, Flow& flow) : module_(module), flow_(flow) {}

  // Appends the steps of `function`, called with `arguments`; what it returns is left in returned_.
  bool run(const isa::Function& function, uint32_t index, std::vector<Name> arguments,
           uint32_t site);
  uint32_t open(RegionKind kind, uint32_t decision);
  void close();
  const isa::Problem& problem() const { return problem_; }

 private:
  struct Frame;
  bool instruction(Frame& frame, uint32_t at);
  bool call(Frame& frame, const isa::Instruction& it, uint32_t at);
  void open_carrying(Frame& frame, const isa::Instruction& it, uint32_t at);
  void open_if(Frame& frame, const isa::Instruction& it, uint32_t at);
  void test(Frame& frame, const isa::Instruction& it, uint32_t at);
  void yield(Frame& frame, const isa::Instruction& it, uint32_t at);
  void plain(Frame& frame, const isa::Instruction& it, uint32_t at);
  Name name(const Frame& frame, Ref ref) const;
  int64_t constant(Name name) const { return isa::constant_integer(module_.constants[name.index]); }
  // Whether from, until and step are constants; a step of 0 is a trap, which a task must raise.
  bool has_static_trips(const std::vector<Name>& bounds) const {
    return bounds[0].is(Kind::constant) && bounds[1].is(Kind::constant) &&
           bounds[2].is(Kind::constant) && constant(bounds[2]) != 0;
  }
  FlowAttribute attribute(const Frame& frame, const isa::AttributeInfo& info, Ref ref) const;
  Name define(Frame& frame, Ref ref, bool variable);
  uint32_t append(const Frame& frame, uint32_t at, Opcode opcode);
  void copy(const Frame& frame, uint32_t at, Name to, Name from);
  // An instruction that becomes no step.
  void count_one() { ++flow_.regions[region_.back()].weight; }

  const Module& module_;
  Flow& flow_;
  std::vector<uint32_t> region_{0};
  std::vector<Name> returned_;
  isa::Problem problem_;
  int depth_ = 0;
};

// One function being inlined.
struct Inliner::Frame {
  // An open region, and what its yields define.
  struct Open {
    Opcode opcode{};
    uint32_t decision = kNone;
    bool has_rest = false;
    std::vector<Name> variables;
  };
  const isa::Function& function;
  uint32_t index = 0;
  uint32_t site = kNone;
  std::vector<Name> names;  // of the function's values
  std::vector<Open> regions;
  Open closed;  // the `if` whose `else` may follow
};

uint32_t Inliner::open(RegionKind kind, uint32_t decision) {
  FlowRegion region;
  region.kind = kind;
  region.decision = decision;
  region.first = static_cast<uint32_t>(flow_.steps.size());
  if (!flow_.regions.empty()) {
    region.parent = region_.back();
    region.depth = flow_.regions[region.parent].depth + 1;
    region_.push_back(static_cast<uint32_t>(flow_.regions.size()));
  }
  flow_.regions.push_back(region);
  return static_cast<uint32_t>(flow_.regions.size() - 1);
}

void Inliner::close() {
  flow_.regions[region_.back()].end = static_cast<uint32_t>(flow_.steps.size());
  region_.pop_back();
}

Name Inliner::name(const Frame& frame, Ref ref) const {
  switch (ref.kind()) {
    case RefKind::value:
      return frame.names[ref.index()];
    case RefKind::tensor:
      return {Kind::tensor, ref.index()};
    case RefKind::param:
      return {Kind::param, ref.index()};
    case RefKind::constant:
      return {Kind::constant, ref.index()};
    case RefKind::number:
      return {Kind::number, ref.index()};
    case RefKind::string:
      return {Kind::text, ref.index()};
    default:
      return {};
  }
}

FlowAttribute Inliner::attribute(const Frame& frame, const isa::AttributeInfo& info,
                                 Ref ref) const {
  FlowAttribute result;
  result.given = static_cast<bool>(ref);
  if (ref.is(RefKind::list)) {
    if (info.kind != isa::AttributeKind::values)
      for (Ref item : module_.list(ref)) result.items.push_back(name(frame, item));
  } else if (ref && !ref.is(RefKind::function)) {
    result.items.push_back(name(frame, ref));
  }
  return result;
}

// What a result Ref stands for from here on: a new value, or the tensor that it names.
Name Inliner::define(Frame& frame, Ref ref, bool variable) {
  if (!ref.is(RefKind::value)) return name(frame, ref);
  if (ref.index() < frame.function.parameters) return frame.names[ref.index()];  // an in-place one
  FlowValue value;
  value.type = module_.type_of(frame.function, ref);
  value.region = region_.back();
  value.variable = variable;
  const auto& names = module_.debug.names;
  const char sigil = value.type.scalar ? '$' : '%';
  const uint32_t text = frame.index < names.size() && ref.index() < names[frame.index].values.size()
                            ? names[frame.index].values[ref.index()]
                            : 0;
  value.name = text != 0 ? fmt::format("{}{}", sigil, module_.strings[text])
                         : fmt::format("{}{}", sigil, flow_.values.size());
  flow_.values.push_back(std::move(value));
  const Name result{Kind::value, static_cast<uint32_t>(flow_.values.size() - 1)};
  frame.names[ref.index()] = result;
  return result;
}

uint32_t Inliner::append(const Frame& frame, uint32_t at, Opcode opcode) {
  Step step;
  step.opcode = opcode;
  step.region = region_.back();
  step.function = frame.index;
  step.instruction = at;
  step.site = frame.site;
  flow_.steps.push_back(std::move(step));
  return static_cast<uint32_t>(flow_.steps.size() - 1);
}

void Inliner::copy(const Frame& frame, uint32_t at, Name to, Name from) {
  if (to == from) return;
  Step& step = flow_.steps[append(frame, at, Opcode::Copy)];
  step.operands = {from};
  step.results = {to};
}

bool Inliner::run(const isa::Function& function, uint32_t index, std::vector<Name> arguments,
                  uint32_t site) {
  if (++depth_ > kMaxCallDepth) {
    problem_.code = isa::ErrorCode::NestingLimit;
    problem_.message = fmt::format("calls nest more than {} deep", kMaxCallDepth);
    return false;
  }
  Frame frame{function, index, site, std::move(arguments), {}, {}};
  frame.names.resize(function.values.size());
  for (uint32_t at = 0; at < function.code.size(); ++at)
    if (!instruction(frame, at)) return false;
  --depth_;
  return true;
}

bool Inliner::instruction(Frame& frame, uint32_t at) {
  if (flow_.steps.size() > kMaxSteps) {
    problem_.code = isa::ErrorCode::ExpansionLimit;
    problem_.message =
        fmt::format("with its calls inlined, the program has more than {} instructions", kMaxSteps);
    return false;
  }
  const isa::Instruction& it = frame.function.code[at];
  switch (it.opcode) {
    case Opcode::Loop:
    case Opcode::While:
      open_carrying(frame, it, at);
      return true;
    case Opcode::If:
      open_if(frame, it, at);
      return true;
    case Opcode::Else:
      frame.regions.push_back(frame.closed);
      open(RegionKind::otherwise, frame.closed.decision);
      return true;
    case Opcode::Test:
      test(frame, it, at);
      return true;
    case Opcode::Yield:
      yield(frame, it, at);
      return true;
    case Opcode::Call:
      return call(frame, it, at);
    case Opcode::Return:
      count_one();
      returned_.clear();
      for (Ref operand : module_.operands(it)) returned_.push_back(name(frame, operand));
      return true;
    default:
      plain(frame, it, at);
      return true;
  }
}

void Inliner::open_carrying(Frame& frame, const isa::Instruction& it, uint32_t at) {
  const bool is_loop = it.opcode == Opcode::Loop;
  const auto operands = module_.operands(it);
  const auto results = module_.results(it);
  const Ref list = module_.attributes(it)[0];
  const auto registers = list ? module_.list(list) : std::span<const Ref>();
  const size_t fixed = is_loop ? 3 : 0;
  const size_t counter = is_loop ? 1 : 0;
  Frame::Open region{it.opcode, kNone, false, {}};
  std::vector<Name> initial;
  for (Ref operand : operands) initial.push_back(name(frame, operand));
  for (size_t i = 0; i < results.size(); ++i) {
    const Name variable = define(frame, results[i], true);
    frame.names[registers[counter + i].index()] = variable;
    region.variables.push_back(variable);
    copy(frame, at, variable, initial[fixed + i]);
  }
  const bool is_static = is_loop && has_static_trips(initial);
  if (is_loop && !is_static) {
    region.decision = append(frame, at, Opcode::Loop);
    flow_.steps.back().operands.assign(initial.begin(), initial.begin() + 3);
    flow_.steps.back().weight = 1;
  } else {
    count_one();
  }
  const uint32_t opened = open(is_loop ? RegionKind::loop : RegionKind::repeat, region.decision);
  if (is_static) {
    FlowRegion& loop = flow_.regions[opened];
    loop.static_trips = true;
    loop.from = constant(initial[0]);
    loop.step = constant(initial[2]);
    loop.trips = trips_of(loop.from, constant(initial[1]), loop.step);
  }
  if (is_loop) frame.names[registers[0].index()] = {Kind::counter, opened};
  frame.regions.push_back(std::move(region));
}

void Inliner::open_if(Frame& frame, const isa::Instruction& it, uint32_t at) {
  Frame::Open region{it.opcode, kNone, false, {}};
  const Name condition = name(frame, module_.operands(it)[0]);
  for (Ref result : module_.results(it)) region.variables.push_back(define(frame, result, true));
  region.decision = append(frame, at, Opcode::If);
  flow_.steps.back().operands = {condition};
  flow_.steps.back().weight = 1;
  open(RegionKind::then, region.decision);
  frame.regions.push_back(std::move(region));
}

void Inliner::test(Frame& frame, const isa::Instruction& it, uint32_t at) {
  const uint32_t step = append(frame, at, Opcode::Test);
  flow_.steps.back().operands = {name(frame, module_.operands(it)[0])};
  flow_.steps.back().weight = 1;
  frame.regions.back().has_rest = true;
  open(RegionKind::rest, step);
}

// The values are handed on at once: one that is itself a variable of this region is saved first.
void Inliner::yield(Frame& frame, const isa::Instruction& it, uint32_t at) {
  count_one();
  Frame::Open region = std::move(frame.regions.back());
  frame.regions.pop_back();
  std::vector<Name> values;
  for (Ref operand : module_.operands(it)) values.push_back(name(frame, operand));
  for (size_t i = 0; i < values.size(); ++i) {
    bool swapped = false;
    for (size_t j = 0; j < i; ++j) swapped = swapped || values[i] == region.variables[j];
    if (!swapped) continue;
    FlowValue saved = flow_.values[values[i].index];
    saved.variable = false;
    saved.region = region_.back();
    saved.name += "'";
    flow_.values.push_back(std::move(saved));
    const Name temporary{Kind::value, static_cast<uint32_t>(flow_.values.size() - 1)};
    copy(frame, at, temporary, values[i]);
    values[i] = temporary;
  }
  // A saved value must be read before its variable changes: the copies above precede all of these.
  for (size_t i = 0; i < values.size(); ++i) copy(frame, at, region.variables[i], values[i]);
  close();
  if (region.has_rest) close();
  if (region.opcode == Opcode::If) frame.closed = std::move(region);
}

void Inliner::plain(Frame& frame, const isa::Instruction& it, uint32_t at) {
  const isa::OpInfo& op = isa::info(it.opcode);
  const uint32_t index = append(frame, at, it.opcode);
  Step step = std::move(flow_.steps[index]);
  step.weight = 1;
  for (Ref operand : module_.operands(it)) step.operands.push_back(name(frame, operand));
  const auto attributes = module_.attributes(it);
  for (size_t i = 0; i < attributes.size(); ++i)
    step.attributes.push_back(attribute(frame, op.attributes[i], attributes[i]));
  for (Ref result : module_.results(it)) step.results.push_back(define(frame, result, false));
  flow_.steps[index] = std::move(step);
}

// A register is a value: a tensor that is handed over as one, or returned as one, is copied; the copy is
// a view where nothing writes the tensor meanwhile (storage.cpp).
bool Inliner::call(Frame& frame, const isa::Instruction& it, uint32_t at) {
  count_one();
  const uint32_t index = module_.attributes(it)[0].index();
  const isa::Function& callee = module_.functions[index];
  const auto operands = module_.operands(it);
  const auto fresh = [&](Name tensor) {
    FlowValue value;
    value.type = flow_.type_of(module_, tensor);
    value.region = region_.back();
    value.name = fmt::format("%{}", flow_.values.size());
    flow_.values.push_back(std::move(value));
    return Name{Kind::value, static_cast<uint32_t>(flow_.values.size() - 1)};
  };
  std::vector<Name> arguments;
  for (size_t i = 0; i < operands.size(); ++i) {
    Name argument = name(frame, operands[i]);
    if (argument.is(Kind::tensor) && callee.inplace[i] == 0) {
      const Name value = fresh(argument);
      copy(frame, at, value, argument);
      argument = value;
    }
    arguments.push_back(argument);
  }
  flow_.sites.push_back({frame.index, at, frame.site});
  if (!run(callee, index, std::move(arguments), static_cast<uint32_t>(flow_.sites.size() - 1)))
    return false;
  const std::vector<Name> returned = std::exchange(returned_, {});
  const auto results = module_.results(it);
  for (size_t i = 0; i < results.size(); ++i) {
    Name value = returned[i];
    const bool to_tensor =
        !results[i].is(RefKind::value) || results[i].index() < frame.function.parameters;
    if (value.is(Kind::tensor) || (to_tensor && i + 1 < results.size())) {
      const Name saved = fresh(value);
      copy(frame, at, saved, value);
      value = saved;
    }
    if (to_tensor) {
      copy(frame, at, name(frame, results[i]), value);
    } else {
      frame.names[results[i].index()] = value;
    }
  }
  return true;
}

}  // namespace

isa::Type Flow::type_of(const Module& module, Name name) const {
  switch (name.kind) {
    case Kind::value:
      return values[name.index].type;
    case Kind::tensor:
      return module.types[module.tensors[name.index].type];
    case Kind::param:
      return isa::Type::make_scalar(module.params[name.index].dtype);
    case Kind::counter:
      return isa::Type::make_scalar(isa::DType::i64);
    case Kind::constant:
      return isa::Type::make_scalar(constants[name.index].dtype);
    default:
      return {};
  }
}

bool Flow::encloses(uint32_t outer, uint32_t inner) const {
  while (inner != kNone && regions[inner].depth > regions[outer].depth)
    inner = regions[inner].parent;
  return inner == outer;
}

uint32_t Flow::use_end(uint32_t from, uint32_t region, uint32_t step) const {
  uint32_t end = step + 1;
  for (uint32_t r = region; r != kNone && !encloses(r, from); r = regions[r].parent)
    if (regions[r].is_loop()) end = regions[r].end;
  return end;
}

isa::Result<Flow> inline_calls(const Module& module, uint32_t entry) {
  Flow flow;
  flow.constants = module.constants;
  Inliner inliner(module, flow);
  inliner.open(RegionKind::root, kNone);
  const isa::Function& function = entry == kNone ? module.init : module.functions[entry];
  if (!inliner.run(function, entry, {}, kNone)) return inliner.problem();
  inliner.close();
  return flow;
}

}  // namespace trek::plan
