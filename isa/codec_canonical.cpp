// Brings a module's tables into their one order: numbered by first use in one fixed walk, each
// distinct entry once, nothing unused.
//
// Time is linear in the module, also for one whose million instructions share a list of a million
// items: what an old index became is remembered per table, so that an entry is looked at once. Only
// a list that holds registers of a function whose registers are renumbered is looked at once per
// such function; decode() refuses modules with such functions before it comes here.
#include "isa/codec_canonical.h"

#include <algorithm>
#include <array>
#include <utility>

#include <xxhash.h>

#include "isa/convert.h"

namespace trek::isa {
namespace {

constexpr uint32_t kUnknown = UINT32_MAX;

uint64_t hash_bytes(const void* bytes, size_t size) { return XXH3_64bits(bytes, size); }

uint64_t hash_type(const Type& type) {
  const std::array<int64_t, 2> head{static_cast<int64_t>(type.dtype),
                                    type.scalar ? -1 : type.shape.rank()};
  return hash_bytes(head.data(), sizeof head) ^
         hash_bytes(type.shape.dims().data(), type.shape.dims().size_bytes());
}

// One NaN per type: a module must not carry a payload that no instruction could see.
Constant one_nan(Constant constant) {
  if (!is_real(constant.dtype)) return constant;
  const double value = bits_to_double(constant.dtype, constant.bits);
  if (value != value) constant.bits = double_to_bits(constant.dtype, value);
  return constant;
}

// The list of registers that an instruction defines for its region, or an empty one.
std::span<const Ref> region_registers(const Module& module, const Instruction& instruction) {
  if (instruction.attributes == 0) return {};
  const OpInfo& op = info(instruction.opcode);
  const auto attributes = module.attributes(instruction);
  for (size_t i = 0; i < std::min(op.attributes.size(), attributes.size()); ++i)
    if (op.attributes[i].kind == AttributeKind::values && attributes[i].is(RefKind::list))
      return module.list(attributes[i]);
  return {};
}

// Calls visit(value) for each register in order of definition, parameters left out, until it says
// no.
template <class Visit>
void for_each_definition(const Module& module, const Function& function, Visit&& visit) {
  const auto is_new = [&](Ref ref) {
    return ref.is(RefKind::value) && ref.index() >= function.parameters;
  };
  for (const Instruction& instruction : function.code) {
    for (Ref ref : module.results(instruction))
      if (is_new(ref) && !visit(ref.index())) return;
    for (Ref ref : region_registers(module, instruction))
      if (is_new(ref) && !visit(ref.index())) return;
  }
}

// The new number of each value: parameters, then in order of definition; what nothing defines (only
// in a module that is not legal) comes last.
std::vector<uint32_t> number_values(const Module& module, const Function& function) {
  std::vector<uint32_t> numbers(function.values.size(), kUnknown);
  uint32_t next = 0;
  while (next < function.parameters) {
    numbers[next] = next;
    ++next;
  }
  for_each_definition(module, function, [&](uint32_t value) {
    if (numbers[value] == kUnknown) numbers[value] = next++;
    return true;
  });
  for (uint32_t& number : numbers)
    if (number == kUnknown) number = next++;
  return numbers;
}

class Canonicaliser {
 public:
  explicit Canonicaliser(const Module& module)
      : in_(module),
        string_(module.strings),
        types_(module.types.size(), kUnknown),
        constants_(module.constants.size(), kUnknown),
        lists_(module.lists.size()) {
    out_.words.reserve(module.words.size());
    out_.lists.reserve(module.lists.size());
  }

  CanonicalModule run() {
    for (const TensorDecl& decl : in_.tensors) add_tensor(decl);
    for (const Param& param : in_.params)
      out_.params.push_back({string_(param.name), param.dtype, constant(param.value)});
    add_function(in_.init);
    if (in_.init.code.empty()) {  // one form of a module without initialisers
      out_.instructions.push_back({Opcode::Return, 0, 0, 0, word_count()});
      out_.code_sizes.back() = 1;
    }
    for (const Function& function : in_.functions) add_function(function);
    for (const Test& test : in_.tests) add_test(test);
    out_.strings = string_.take();
    return std::move(out_);
  }

 private:
  uint32_t word_count() const { return static_cast<uint32_t>(out_.words.size()); }

  uint32_t type(uint32_t old) {
    if (types_[old] != kUnknown) return types_[old];
    const Type& type = in_.types[old];
    const auto next = static_cast<uint32_t>(out_.types.size());
    const uint32_t number = type_numbering_.find_or_add(
        hash_type(type), next, [&](uint32_t i) { return out_.types[i] == type; });
    if (number == next) out_.types.push_back(type);
    return types_[old] = number;
  }

  uint32_t constant(uint32_t old) {
    if (constants_[old] != kUnknown) return constants_[old];
    const Constant constant = one_nan(in_.constants[old]);
    const std::array<uint64_t, 2> key{static_cast<uint64_t>(constant.dtype), constant.bits};
    const auto next = static_cast<uint32_t>(out_.constants.size());
    const uint32_t number =
        constant_numbering_.find_or_add(hash_bytes(key.data(), sizeof key), next,
                                        [&](uint32_t i) { return out_.constants[i] == constant; });
    if (number == next) out_.constants.push_back(constant);
    return constants_[old] = number;
  }

  Ref word(Ref ref) {
    switch (ref.kind()) {
      case RefKind::value:
        return values_->empty() ? ref : Ref{RefKind::value, (*values_)[ref.index()]};
      case RefKind::constant:
        return {RefKind::constant, constant(ref.index())};
      case RefKind::string:
        return {RefKind::string, string_(ref.index())};
      case RefKind::list:
        return {RefKind::list, list(ref)};
      case RefKind::none:
      case RefKind::tensor:
      case RefKind::param:
      case RefKind::function:
      case RefKind::number:
        return ref;
    }
    return ref;
  }

  uint32_t list(Ref ref) {
    KnownList& known = lists_[ref.index()];
    const bool plain = values_->empty();
    const bool holds = !known.has_values || (known.plain && plain) || known.function == function_;
    if (known.number != kUnknown && holds) return known.number;

    const auto items = in_.list(ref);
    const auto next = static_cast<uint32_t>(out_.lists.size());
    Ref count;
    count.bits = static_cast<uint32_t>(items.size());
    out_.lists.push_back(count);
    known.has_values = false;
    for (Ref item : items) {
      known.has_values = known.has_values || item.is(RefKind::value);
      const Ref renumbered = word(item);
      out_.lists.push_back(renumbered);
    }
    known.plain = plain;
    known.function = function_;
    const std::span<const Ref> added(out_.lists.data() + next, items.size() + 1);
    known.number = list_numbering_.find_or_add(
        hash_bytes(added.data(), added.size_bytes()), next, [&](uint32_t i) {
          return out_.lists[i] == count && std::equal(added.begin(), added.end(), &out_.lists[i]);
        });
    if (known.number != next) out_.lists.resize(next);
    return known.number;
  }

  uint64_t add_chunk(uint64_t from, uint64_t size) {
    const uint64_t to = next_data_offset(out_.data_size);
    out_.data.push_back({from, to, size});
    out_.data_size = to + size;
    return to;
  }

  void add_tensor(const TensorDecl& decl) {
    TensorDecl tensor;
    tensor.name = string_(decl.name);
    tensor.type = type(decl.type);
    tensor.role = decl.role;
    tensor.source = decl.source;
    if (decl.source == DataSource::embedded) {
      tensor.offset = add_chunk(decl.offset, static_cast<uint64_t>(in_.types[decl.type].bytes()));
    } else if (decl.source == DataSource::external) {
      tensor.external = static_cast<uint32_t>(out_.externals.size());
      External external = in_.externals[decl.external];
      external.format = string_(external.format);
      external.path = string_(external.path);
      external.member = string_(external.member);
      out_.externals.push_back(external);
    }
    out_.tensors.push_back(tensor);
  }

  void add_function(const Function& function) {
    function_ = static_cast<uint32_t>(out_.functions.size());
    out_.code_sizes.push_back(static_cast<uint32_t>(function.code.size()));
    out_.value_numbers.push_back(in_definition_order(in_, function) ? std::vector<uint32_t>()
                                                                    : number_values(in_, function));
    values_ = &out_.value_numbers.back();

    Function& made = out_.functions.emplace_back();
    made.name = string_(function.name);
    made.parameters = function.parameters;
    made.inplace = function.inplace;
    for (uint32_t result : function.results) made.results.push_back(type(result));
    made.values.resize(function.values.size());
    std::vector<uint32_t> old(values_->size());  // the inverse of the numbering
    for (uint32_t i = 0; i < old.size(); ++i) old[(*values_)[i]] = i;
    for (uint32_t i = 0; i < made.values.size(); ++i)
      made.values[i].type = type(function.values[old.empty() ? i : old[i]].type);

    out_.instructions.reserve(out_.instructions.size() + function.code.size());
    for (Instruction instruction : function.code) {
      const size_t count =
          size_t{instruction.results} + instruction.operands + instruction.attributes;
      const std::span<const Ref> words(in_.words.data() + instruction.first, count);
      instruction.first = word_count();
      out_.instructions.push_back(instruction);
      for (Ref ref : words) out_.words.push_back(word(ref));
    }
  }

  void add_test(const Test& test) {
    Test& made = out_.tests.emplace_back();
    made.name = string_(test.name);
    made.trap = test.trap;
    const auto add = [&](const TestBinding& binding, std::vector<TestBinding>& to) {
      to.push_back({binding.target, add_chunk(binding.offset, binding_size(in_, binding.target))});
    };
    for (const TestBinding& binding : test.given) add(binding, made.given);
    for (const TestBinding& binding : test.expected) add(binding, made.expected);
  }

  struct KnownList {
    uint32_t number = kUnknown;
    uint32_t function = 0;    // that it was numbered for
    bool has_values = false;  // so that the number depends on the function's
    bool plain = false;       // that function renumbers nothing
  };

  const Module& in_;
  CanonicalModule out_;
  StringNumbering string_;
  std::vector<uint32_t> types_;
  std::vector<uint32_t> constants_;
  std::vector<KnownList> lists_;
  Numbering type_numbering_;
  Numbering constant_numbering_;
  Numbering list_numbering_;
  const std::vector<uint32_t>* values_ = nullptr;  // of the function at hand
  uint32_t function_ = 0;
};

}  // namespace

bool in_definition_order(const Module& module, const Function& function) {
  uint32_t next = function.parameters;
  bool ordered = true;
  for_each_definition(module, function, [&](uint32_t value) { return ordered = value == next++; });
  return ordered && next == function.values.size();
}

void Numbering::grow() {
  std::vector<Slot> old(std::max<size_t>(16, 2 * slots_.size()));
  std::swap(old, slots_);
  for (const Slot& slot : old) {
    if (slot.number == kFree) continue;
    size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].number != kFree) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

StringNumbering::StringNumbering(const std::vector<std::string>& strings)
    : strings_(strings), known_(strings.size(), kUnknown) {}

uint32_t StringNumbering::operator()(uint32_t string) {
  uint32_t& known = known_[string];
  if (known != kUnknown) return known;
  const std::string_view text = strings_[string];
  if (text.empty()) return known = 0;
  const auto next = static_cast<uint32_t>(texts_.size());
  known = numbering_.find_or_add(hash_bytes(text.data(), text.size()), next,
                                 [&](uint32_t i) { return texts_[i] == text; });
  if (known == next) texts_.push_back(text);
  return known;
}

uint64_t binding_size(const Module& module, Ref target) {
  if (target.is(RefKind::tensor))
    return static_cast<uint64_t>(module.types[module.tensors[target.index()].type].bytes());
  return static_cast<uint64_t>(byte_size(module.params[target.index()].dtype));
}

CanonicalModule canonicalise(const Module& module) { return Canonicaliser(module).run(); }

}  // namespace trek::isa
