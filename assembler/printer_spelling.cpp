#include "assembler/printer_spelling.h"

#include <algorithm>

#include "isa/verifier.h"

namespace trek::printer {

using assembler::TokenKind;
using assembler::Value;
using isa::Constant;
using isa::DType;

namespace {

// Texts that stand on one line wherever they are put: no line end, no comment, no byte that only looks
// like a blank, no byte order mark, which only begins a source.
bool is_one_line(std::string_view text) {
  return !text.empty() && !text.starts_with("\xEF\xBB\xBF") &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return c != ';' && static_cast<unsigned char>(c) >= ' ' && c != 0x7F;
         });
}

}  // namespace

Spellings::Spellings() : core_(sources_, scratch_), expressions_(core_) {}

bool Spellings::define(std::string_view name, std::string_view text) {
  if (!isa::is_identifier(name) || assembler::is_expression_word(name)) return false;
  if (core_.constants.contains(name)) return false;
  const Known value = evaluate_now(text);
  if (!value) return false;
  core_.constants.emplace(name, assembler::NamedConstant{*value, {}, true, false});
  std::erase_if(known_, [](const auto& entry) { return !entry.second; });
  return true;
}

void Spellings::declare(std::string_view name, const isa::Type& type) {
  const auto index = static_cast<uint32_t>(scratch_.tensors.size());
  isa::TensorDecl decl;
  decl.type = static_cast<uint32_t>(scratch_.types.size());
  scratch_.types.push_back(type);
  scratch_.tensors.push_back(decl);
  core_.tensors.emplace(name, assembler::NamedPlace{index, {}});
}

bool Spellings::gives(std::string_view text, const Constant& constant) {
  const Known& value = evaluate(text);
  if (!value || value->kind == Value::Kind::string) return false;
  return assembler::to_bits(*value, constant.dtype).bits == constant.bits;
}

bool Spellings::gives_naturally(std::string_view text, const Constant& constant, DType real) {
  const Known& value = evaluate(text);
  if (!value || value->kind == Value::Kind::string) return false;
  const bool is_plain_real = value->kind == Value::Kind::real && value->stated == DType::none;
  const DType dtype = is_plain_real ? real : assembler::natural_type(*value);
  return dtype == constant.dtype && assembler::to_bits(*value, dtype).bits == constant.bits;
}

const Spellings::Known& Spellings::evaluate(std::string_view text) {
  const auto found = known_.find(text);
  if (found != known_.end()) return found->second;
  return known_.emplace(text, evaluate_now(text)).first->second;
}

Spellings::Known Spellings::evaluate_now(std::string_view text) {
  // A module with so many spellings that mean nothing is not honest: no time is lost on the others.
  if (!is_one_line(text) || core_.reporter.full()) return std::nullopt;
  const auto file = sources_.add("spelling", std::string(text));
  if (!file.ok()) return std::nullopt;
  const size_t depth = core_.stream.depth();
  assembler::TextSpan span;
  span.file = *file;
  span.end = static_cast<uint32_t>(text.size());
  core_.stream.push(assembler::TokenStream::FrameKind::file, span, nullptr, 0);
  Known value = expressions_.parse();
  if (value && !core_.stream.at(TokenKind::end)) value.reset();
  while (core_.stream.depth() > depth) core_.stream.finish_frame();
  return value;
}

}  // namespace trek::printer
