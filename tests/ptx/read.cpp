#include "tests/ptx/read.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "tests/ptx/handlers.h"
#include "tests/ptx/registers.h"
#include "tests/ptx/text.h"

namespace trek::ptx {
namespace {

// ---- control -------------------------------------------------------------------------------------

void branch(Warp& warp, const Instruction& i, uint32_t lanes) { warp.branch(i.target, lanes); }
void call(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Module& module = warp.block().grid().module();
  const Call& call = module.calls[i.target];
  warp.call(call, module.functions[call.function].first, lanes);
}
void leave(Warp& warp, const Instruction& /*i*/, uint32_t lanes) { warp.leave(lanes); }
void exit(Warp& warp, const Instruction& /*i*/, uint32_t lanes) { warp.exit(lanes); }
void trap(Warp& warp, const Instruction& /*i*/, uint32_t /*lanes*/) { warp.fail("trap"); }
void behind_function(Warp& warp, const Instruction& /*i*/, uint32_t /*lanes*/) {
  warp.fail("behind the end of a function");
}

const Handlers& handlers() {
  static const Handlers kHandlers = [] {
    Handlers h;
    add_arithmetic(h);
    add_conversions(h);
    add_comparisons(h);
    add_memory(h);
    add_barriers(h);
    add_matrices(h);
    add_clusters(h);
    add_special_registers(h);
    h["bra"] = branch;
    h["call"] = call;
    h["ret"] = leave;
    h["exit"] = exit;
    h["trap"] = trap;
    return h;
  }();
  return kHandlers;
}

void remove_all(std::string& text, std::string_view part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part))
    text.erase(at, part.size());
}

// An opcode without what makes no difference here. A load that looks at what others write is "ld.look".
std::string plain(std::string_view opcode) {
  std::string text(opcode);
  if (text.starts_with("ld.") &&
      (text.find(".acquire") != std::string::npos || text.find(".relaxed") != std::string::npos ||
       text.find(".volatile") != std::string::npos))
    text.insert(2, ".look");
  if (text.starts_with("st.volatile.shared")) text.insert(2, ".look");
  const bool is_fence = text.starts_with("fence");
  for (std::string_view part : {".uni", ".volatile", "::cta", ".nc", ".to.bra"})
    remove_all(text, part);
  if (!is_fence)
    for (std::string_view part : {".acquire.cluster", ".release.cluster", ".acquire", ".release",
                                  ".relaxed", ".acq_rel", ".gpu", ".sys"})
      remove_all(text, part);
  return text;
}

std::string shape_of(const Statement& statement) {
  if (statement.groups.size() == 2 && statement.groups[0] == 2) return " {2}";
  if (statement.groups.size() == 2 && statement.groups[1] == 2) return " {1,2}";
  return "";
}

}  // namespace

class Builder {
 public:
  Builder(const ModuleText& text, DeviceMemory& memory) : text_(text), memory_(memory) {}

  std::unique_ptr<Module> build() {
    module_ = std::make_unique<Module>();
    place_variables();
    for (const FunctionText& function : text_.functions) declare(function);
    for (size_t i = 0; i < text_.functions.size(); ++i) fill(i);
    for (const auto& [number, value] : constants_by_number()) {
      module_->constant_words.insert(module_->constant_words.end(), kLanes,
                                     static_cast<uint32_t>(value));
      module_->constant_longs.insert(module_->constant_longs.end(), kLanes,
                                     static_cast<uint64_t>(value));
      static_cast<void>(number);
    }
    return std::move(module_);
  }

 private:
  void place_variables() {
    for (const Declared& variable : text_.variables) {
      if (variable.space == "shared") {
        uint32_t& end = module_->shared_bytes;
        end = (end + variable.align - 1) / variable.align * variable.align;
        shared_[variable.name] = kReservedShared + end;
        end += variable.bytes;
        continue;
      }
      const uint64_t address = memory_.allocate(std::max<uint32_t>(variable.bytes, 1));
      if (address == 0) throw TextError(0, "no memory for " + std::string(variable.name));
      std::vector<std::byte> content = variable.content;
      content.resize(variable.bytes);
      std::memcpy(reinterpret_cast<void*>(address), content.data(),
                  content.size());  // NOLINT(performance-no-int-to-ptr)
      module_->variables[std::string(variable.name)] = {address, variable.bytes};
    }
    // What a launch adds to shared memory lies behind what is known.
    for (const Declared& variable : text_.variables)
      if (variable.space == "shared" && variable.bytes == 0) {
        module_->shared_bytes =
            (module_->shared_bytes + variable.align - 1) / variable.align * variable.align;
        shared_[variable.name] = kReservedShared + module_->shared_bytes;
      }
  }

  void declare(const FunctionText& text) {
    Function function;
    function.name = text.name;
    function.is_kernel = text.is_kernel;
    function.local_bytes = text.local_bytes;
    function.parameter_bytes = text.parameter_bytes;
    function.most_threads = text.most_threads;
    for (uint32_t p : text.parameters)
      function.parameters.push_back({text.variables[p].at, text.variables[p].bytes});
    for (uint32_t p : text.results)
      function.results.push_back({text.variables[p].at, text.variables[p].bytes});
    numbers_[function.name] = static_cast<uint32_t>(module_->functions.size());
    module_->functions.push_back(std::move(function));
  }

  void fill(size_t number) {
    const FunctionText& text = text_.functions[number];
    Function& function = module_->functions[number];
    const Slots slots = allot_slots(text);
    function.predicates = slots.predicates;
    function.words = slots.words;
    function.longs = slots.longs;
    module_->most_predicates = std::max(module_->most_predicates, slots.predicates);
    module_->most_words = std::max(module_->most_words, slots.words);
    module_->most_longs = std::max(module_->most_longs, slots.longs);
    module_->most_parameter_bytes = std::max(module_->most_parameter_bytes, text.parameter_bytes);
    function.first = static_cast<uint32_t>(module_->instructions.size());
    const auto labels = label_places(text);
    size_t operands = 0;
    for (const Statement& s : text.statements) operands += s.operands.size() + 4;
    module_->operand_blocks_.push_back(std::make_unique<Operand[]>(operands));
    Operand* next = module_->operand_blocks_.back().get();
    for (const Statement& statement : text.statements) {
      Instruction instruction = decode(statement, text, slots, next);
      if (instruction.execute == branch)
        instruction.target = function.first + labels.at(statement.operands[0].name);
      module_->instructions.push_back(instruction);
    }
    Instruction end;
    end.execute = behind_function;
    module_->instructions.push_back(end);
    function.end = static_cast<uint32_t>(module_->instructions.size());
  }

  Operand constant(int64_t value) {
    const auto [at, is_new] =
        constants_.try_emplace(value, static_cast<int32_t>(constants_.size()));
    return ~at->second;
  }
  std::vector<std::pair<int32_t, int64_t>> constants_by_number() const {
    std::vector<std::pair<int32_t, int64_t>> sorted;
    for (const auto& [value, number] : constants_) sorted.emplace_back(number, value);
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

  // The address of a symbol of the module.
  int64_t address_of(const Written& written, uint32_t line) const {
    if (const auto shared = shared_.find(written.name); shared != shared_.end())
      return shared->second;
    const auto found = module_->variables.find(std::string(written.name));
    if (found == module_->variables.end())
      throw TextError(line, std::string(written.name) + " is not declared");
    return static_cast<int64_t>(found->second.address);
  }

  Operand operand(const Written& w, const FunctionText& text, const Slots& slots, uint32_t line) {
    switch (w.kind) {
      case Written::none:
        return kNoOperand;
      case Written::reg:
        return slots.of[w.index];
      case Written::number:
        return constant(w.value);
      case Written::variable:
        return constant(text.variables[w.index].at);
      case Written::symbol:
        return constant(address_of(w, line));
      case Written::special:
        break;
    }
    throw TextError(line, std::string(w.name) + " stands where no special register can");
  }

  Instruction decode(const Statement& s, const FunctionText& text, const Slots& slots,
                     Operand*& next) {
    Instruction i;
    i.line = s.line;
    i.operands = next;
    std::string name = plain(s.opcode);
    if (s.guard.kind == Written::reg) {
      i.guard = slots.of[s.guard.index];
      i.guard_is_negated = s.guard.is_negated;
    }
    if (name == "bra") {
      i.execute = branch;
      return i;
    }
    if (name == "call") {
      i.execute = call;
      i.target = add_call(s, text);
      return i;
    }
    if (name.starts_with("mov.")) {
      const Written& from = s.operands.back();
      if (from.kind == Written::special) {
        name = from.name;
        *next++ = operand(s.operands[0], text, slots, s.line);
        i.execute = find(name, s);
        return i;
      }
      if (from.kind == Written::variable && text.variables[from.index].space == "local") {
        name = "mov.local";
        i.value = text.variables[from.index].at;
      } else {
        name += shape_of(s);
      }
    }
    i.count = static_cast<uint8_t>(name.starts_with("st.") || name == "st"
                                       ? s.groups.at(1)
                                       : (s.groups.empty() ? 0 : s.groups[0]));
    if (name.starts_with("bar.") || name.starts_with("cp.async.c"))
      i.count = static_cast<uint8_t>(s.operands.size());
    for (size_t o = 0; o < s.operands.size(); ++o) {
      const Written& w = s.operands[o];
      if (name == "mov.pred" && w.kind == Written::number) {
        *next++ = w.value != 0 ? kTrue : kFalse;
        continue;
      }
      if (w.is_address) {
        if (w.kind == Written::reg && w.of == Class::word)
          i.word_addresses |= static_cast<uint8_t>(1U << o);
        if (w.kind != Written::number && w.value != 0) {
          if (i.value != 0) throw TextError(s.line, "two addresses to which something is added");
          i.value = w.value;
          i.added_to = static_cast<uint8_t>(o);
        }
        if (w.kind == Written::variable && text.variables[w.index].space == "local")
          throw TextError(s.line, "local memory by its name");
      }
      if (name.starts_with("vote.") && w.is_negated) i.value = 1;
      *next++ = operand(w, text, slots, s.line);
    }
    // A shuffle's predicate may be left out.
    if (name.starts_with("shfl.") && s.groups[0] == 1) {
      Operand* first = next - s.operands.size();
      std::move_backward(first + 1, next, next + 1);
      first[1] = kNoOperand;
      ++next;
    }
    if (name.starts_with("wgmma.mma_async.") && s.groups.at(1) == 4) name += kOfRegisters;
    if (moves_low_bits(name)) {
      const size_t value = name.starts_with("ld.") ? 0 : 1;
      if (is_wide(s.operands[value]) && (!name.starts_with("cvt.") || bits_of_last(name) < 64))
        name += kInLongs;
    } else {
      check_lengths(name, s);
    }
    i.execute = find(name, s);
    return i;
  }

  static bool is_wide(const Written& w) { return w.kind == Written::reg && w.of == Class::wide; }
  static bool moves_low_bits(std::string_view name) {
    return name.starts_with("ld.") || name.starts_with("st.") || name.starts_with("cvt.");
  }
  // Of the type at the end of a name; 0 where there is none.
  static uint32_t bits_of_last(std::string_view name) {
    const std::string_view type = name.substr(name.rfind('.') + 1);
    if (type.size() < 2 || std::string_view("busf").find(type[0]) == std::string_view::npos)
      return 0;
    uint32_t bits = 0;
    const auto got = std::from_chars(type.data() + 1, type.data() + type.size(), bits);
    return got.ptr == type.data() + type.size() ? bits : 0;
  }
  // Registers of another length than the type's would be read as other registers here.
  static void check_lengths(std::string_view name, const Statement& s) {
    struct Rule {
      std::string_view prefix;
      size_t first;
      size_t end;  // of the operands that have the type
    };
    static constexpr Rule kRules[] = {
        {"add", 0, 9},     {"sub", 0, 9}, {"mul.lo", 0, 9}, {"mul.hi", 0, 9}, {"mul.rn", 0, 9},
        {"mad.lo", 0, 9},  {"fma", 0, 9}, {"div", 0, 9},    {"rem", 0, 9},    {"min", 0, 9},
        {"max", 0, 9},     {"and", 0, 9}, {"or", 0, 9},     {"xor", 0, 9},    {"not", 0, 9},
        {"neg", 0, 9},     {"abs", 0, 9}, {"sqrt", 0, 9},   {"rcp", 0, 9},    {"setp", 1, 3},
        {"selp", 0, 3},    {"shl", 0, 2}, {"shr", 0, 2},    {"bfe", 0, 2},    {"bfi", 0, 3},
        {"mul.wide", 1, 3}};
    const uint32_t bits = bits_of_last(name);
    if (bits == 0) return;
    for (const Rule& rule : kRules) {
      if (!name.starts_with(rule.prefix)) continue;
      for (size_t o = rule.first; o < std::min(rule.end, s.operands.size()); ++o)
        if (s.operands[o].kind == Written::reg && is_wide(s.operands[o]) != (bits == 64))
          throw TextError(s.line,
                          "'" + std::string(s.opcode) + "' of a register of another length");
    }
  }

  static Handler find(const std::string& name, const Statement& s) {
    const auto found = handlers().find(name);
    if (found == handlers().end())
      throw TextError(s.line, "unknown instruction '" + std::string(s.opcode) + "' (" + name + ")");
    return found->second;
  }

  uint32_t add_call(const Statement& s, const FunctionText& text) {
    const auto found = numbers_.find(std::string(s.callee));
    if (found == numbers_.end()) throw TextError(s.line, std::string(s.callee) + " is not defined");
    const Function& callee = module_->functions[found->second];
    if (callee.parameters.size() != s.arguments.size() || callee.results.size() != s.results.size())
      throw TextError(s.line, "a call of " + callee.name + " with other parameters");
    Call call;
    call.function = found->second;
    call.local_bytes = text.local_bytes;
    for (size_t a = 0; a < s.arguments.size(); ++a)
      call.arguments.push_back(
          {text.variables[s.arguments[a]].at, callee.parameters[a].at, callee.parameters[a].bytes});
    for (size_t r = 0; r < s.results.size(); ++r)
      call.results.push_back(
          {callee.results[r].at, text.variables[s.results[r]].at, callee.results[r].bytes});
    module_->calls.push_back(std::move(call));
    return static_cast<uint32_t>(module_->calls.size() - 1);
  }

  const ModuleText& text_;
  DeviceMemory& memory_;
  std::unique_ptr<Module> module_;
  std::map<std::string, uint32_t> numbers_;
  std::map<std::string_view, int64_t> shared_;
  std::map<int64_t, int32_t> constants_;
};

std::unique_ptr<Module> read_module(std::string_view text, DeviceMemory& memory) {
  const ModuleText read = read_text(text);
  std::unique_ptr<Module> module = Builder(read, memory).build();
  module->text = text;
  module->line_starts = {0};
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') module->line_starts.push_back(i + 1);
  return module;
}

}  // namespace trek::ptx
