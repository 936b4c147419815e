// Names of registers, and the comments and spellings of a function's instructions.
#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>

#include "assembler/printer_parts.h"
#include "isa/verifier.h"

namespace trek::printer {

using isa::Debug;

namespace {

constexpr char kGenerated = 'v';

// Of a name that a register without a name could be given, v12 or v12_, the register's number.
std::optional<uint32_t> generated_number(std::string_view name) {
  while (!name.empty() && name.back() == '_') name.remove_suffix(1);
  if (name.size() < 2 || name[0] != kGenerated || (name[1] == '0' && name.size() > 2)) return {};
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return {};
  return number;
}

std::string generated(uint32_t value, uint32_t underscores) {
  std::string name(1, kGenerated);
  append_number(name, value);
  name.append(underscores, '_');
  return name;
}

auto order(const Debug::CodeComment& c) {
  return std::tuple(c.function, c.instruction, c.trailing);
}
auto order(const Debug::Spelling& s) {
  return std::tuple(s.where, s.function, s.index, s.slot, s.element);
}

template <class T>
std::vector<T> in_order(std::vector<T> entries) {
  const auto before = [](const T& a, const T& b) { return order(a) < order(b); };
  if (!std::is_sorted(entries.begin(), entries.end(), before))
    std::sort(entries.begin(), entries.end(), before);
  return entries;
}

}  // namespace

Names::Names(const isa::Module& module, bool use_debug)
    : module_(module),
      use_debug_(use_debug && !module.debug.names.empty()),
      ids_(module.strings.size()) {
  isa::StringNumbering number(module.strings);
  size_t values = 0;
  for (const isa::Function& function : module.functions)
    values = std::max(values, function.values.size());
  const auto add = [&](uint32_t string) {
    if (string >= ids_.size() || ids_[string] != 0 || !isa::is_identifier(module.strings[string]))
      return;
    const std::string& name = module.strings[string];
    ids_[string] = number(string);
    const std::optional<uint32_t> generated = generated_number(name);
    if (!generated || *generated >= values) return;
    if (name.back() == '_') {
      id_of_text_.emplace(name, ids_[string]);
    } else {
      if (id_of_number_.empty()) id_of_number_.resize(values);
      id_of_number_[*generated] = ids_[string];
    }
  };
  for (const isa::Param& param : module.params) add(param.name);
  if (use_debug_)
    for (const Debug::FunctionNames& names : module.debug.names)
      for (uint32_t string : names.values) add(string);
  taken_.resize(module.strings.size() + 1);
  for (const isa::Param& param : module.params) taken_[ids_[param.name]] |= kScalar;
}

void Names::begin_function(uint32_t function) {
  function_ = &module_.functions[function];
  debug_ = use_debug_ && function < module_.debug.names.size()
               ? &module_.debug.names[function].values
               : nullptr;
  chosen_.assign(function_->values.size(), {});
  marks_.assign(1, 0);
  end_region();  // of the function before
}

void Names::end_region() {
  while (visible_.size() > marks_.back()) {
    taken_[visible_.back().id] &= static_cast<uint8_t>(~visible_.back().sigil);
    visible_.pop_back();
  }
  marks_.pop_back();
}

Names::Sigil Names::sigil(uint32_t value) const {
  return module_.types[function_->values[value].type].scalar ? kScalar : kTensor;
}

bool Names::take(uint32_t id, Sigil sigil) {
  if ((taken_[id] & sigil) != 0) return false;
  taken_[id] |= sigil;
  visible_.push_back({id, sigil});
  return true;
}

void Names::define(uint32_t value) {
  Chosen& chosen = chosen_[value];
  const uint32_t string = debug_ != nullptr && value < debug_->size() ? (*debug_)[value] : 0;
  if (string < ids_.size() && ids_[string] != 0 && take(ids_[string], sigil(value))) {
    chosen.string = string;
    return;
  }
  for (;; ++chosen.underscores) {
    const uint32_t clash = find_generated(value, chosen.underscores);
    if (clash == 0 || take(clash, sigil(value))) return;
  }
}

uint32_t Names::find_generated(uint32_t value, uint32_t underscores) const {
  if (underscores == 0) return id_of_number_.empty() ? 0 : id_of_number_[value];
  const auto known = id_of_text_.find(generated(value, underscores));
  return known == id_of_text_.end() ? 0 : known->second;
}

void Names::choose(std::span<const isa::Ref> results) {
  begin_region();
  for (isa::Ref result : results) define(result.index());
  end_region();
}

void Names::reveal(std::span<const isa::Ref> results) {
  for (isa::Ref result : results) {
    const Chosen& chosen = chosen_[result.index()];
    if (chosen.string != 0) {
      take(ids_[chosen.string], sigil(result.index()));
    } else if (const uint32_t known = find_generated(result.index(), chosen.underscores)) {
      take(known, sigil(result.index()));
    }
  }
}

void Names::append(std::string& out, uint32_t value) const {
  out += sigil(value) == kScalar ? '$' : '%';
  const Chosen& chosen = chosen_[value];
  if (chosen.string != 0) {
    out += module_.strings[chosen.string];
    return;
  }
  out += kGenerated;
  append_number(out, value);
  out.append(chosen.underscores, '_');
}

SourceForm::SourceForm(const isa::Module& module, const PrintOptions& options) : module_(module) {
  if (options.source_form) {
    comments_ = in_order(module.debug.comments);
    spellings_ = in_order(module.debug.spellings);
  }
  // Those of instructions come first, then those of tensors.
  tensors_ = std::find_if(spellings_.cbegin(), spellings_.cend(), [](const Debug::Spelling& s) {
    return s.where == Debug::Spelling::Where::tensor;
  });
}

void SourceForm::begin_instruction(uint32_t function, uint32_t instruction) {
  const auto place = std::tuple(function, instruction);
  while (comments_at_ < comments_.size() &&
         std::tuple(comments_[comments_at_].function, comments_[comments_at_].instruction) < place)
    ++comments_at_;
  const auto end = static_cast<size_t>(tensors_ - spellings_.begin());
  const auto place_of = [&](size_t i) {
    return std::tuple(spellings_[i].function, spellings_[i].index);
  };
  while (spellings_at_ < end && place_of(spellings_at_) < place) ++spellings_at_;
  spellings_end_ = spellings_at_;
  while (spellings_end_ < end && place_of(spellings_end_) == place) ++spellings_end_;
}

std::string_view SourceForm::comment(uint32_t function, uint32_t instruction, bool trailing) const {
  const auto key = std::tuple(function, instruction, trailing);
  for (size_t i = comments_at_; i < comments_.size() && order(comments_[i]) <= key; ++i)
    if (order(comments_[i]) == key) return module_.strings[comments_[i].text];
  return {};
}

std::string_view SourceForm::spelling(uint32_t slot, uint32_t element) const {
  return find(spellings_.begin() + static_cast<std::ptrdiff_t>(spellings_at_),
              spellings_.begin() + static_cast<std::ptrdiff_t>(spellings_end_), slot, element);
}

std::string_view SourceForm::dimension_spelling(uint32_t tensor, uint32_t axis) const {
  const auto before = [](const Debug::Spelling& s, uint32_t index) { return s.index < index; };
  const auto begin = std::lower_bound(tensors_, spellings_.end(), tensor, before);
  const auto end = std::lower_bound(begin, spellings_.end(), tensor + 1, before);
  return find(begin, end, axis, 0);
}

std::string_view SourceForm::find(Entry begin, Entry end, uint32_t slot, uint32_t element) const {
  const auto key = std::tuple(slot, element);
  const auto found = std::lower_bound(begin, end, key, [](const Debug::Spelling& s, const auto& k) {
    return std::tuple(s.slot, s.element) < k;
  });
  if (found == end || std::tuple(found->slot, found->element) != key) return {};
  return module_.strings[found->text];
}

}  // namespace trek::printer
