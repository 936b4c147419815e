#include "hostlib/place.h"

#include <fmt/format.h>

#include "hostlib/values.h"

namespace trek {
namespace {

using isa::Module;
using isa::Ref;
using isa::RefKind;

std::string_view line_of(std::string_view text, uint32_t line) {
  for (; line > 1; --line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

// The line up to its comment; a `;` in a string does not begin one.
std::string_view without_comment(std::string_view line) {
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && quoted) {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ';' && !quoted) {
      return line.substr(0, i);
    }
  }
  return line;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Whether a macro's argument or a constant's value stands in the line, as `{N}`; a region's brace is
// not closed in its line.
bool has_substitution(std::string_view line) {
  const size_t open = line.find('{');
  return open != std::string_view::npos && line.find('}', open) != std::string_view::npos;
}

std::string single_spaced(std::string_view text) {
  std::string result;
  for (const char c : text)
    if (c != ' ' || !result.ends_with(' ')) result += c;
  return result;
}

std::string value_name(const Module& module, uint32_t function, uint32_t value) {
  const uint32_t type = function_at(module, {function, 0}).values[value].type;
  const char sigil = module.type(type).scalar ? '$' : '%';
  const bool listed =
      function < module.debug.names.size() && value < module.debug.names[function].values.size();
  const std::string& given = module.string(listed ? module.debug.names[function].values[value] : 0);
  return given.empty() ? fmt::format("{}{}", sigil, value) : sigil + given;
}

std::string joined(const Module& module, uint32_t function, std::span<const Ref> refs) {
  std::string text;
  for (const Ref ref : refs)
    if (ref) text += (text.empty() ? "" : ", ") + ref_text(module, function, ref);
  return text;
}

}  // namespace

std::string_view statement_of(std::string_view line) { return trimmed(without_comment(line)); }

const isa::Function& function_at(const Module& module, const Place& place) {
  return place.function == kInitFunction ? module.init : module.functions[place.function];
}

const isa::Instruction& instruction_at(const Module& module, const Place& place) {
  return function_at(module, place).code[place.instruction];
}

std::string function_text(const Module& module, const Place& place) {
  if (place.function == kInitFunction) return "the initialisers";
  return module.string(module.functions[place.function].name);
}

isa::Location location_at(const Module& module, const Place& place) {
  if (place.function >= module.debug.lines.size()) return {};
  const auto& code = module.debug.lines[place.function].code;
  return place.instruction < code.size() ? code[place.instruction] : isa::Location{};
}

std::string location_text(const Module& module, const Place& place) {
  const isa::Location location = location_at(module, place);
  if (location.line == 0 || location.file >= module.debug.files.size())
    return fmt::format("function {}, instruction {} ({})", function_text(module, place),
                       place.instruction, isa::info(instruction_at(module, place).opcode).mnemonic);
  return fmt::format("{}:{}:{}", module.debug.files[location.file], location.line, location.column);
}

std::string_view source_line(const Module& module, const Place& place) {
  const isa::Location location = location_at(module, place);
  if (location.line == 0 || location.file >= module.debug.sources.size()) return {};
  return line_of(module.debug.sources[location.file], location.line);
}

std::string ref_text(const Module& module, uint32_t function, Ref ref) {
  switch (ref.kind()) {
    case RefKind::tensor:
      return "@" + module.string(module.tensors[ref.index()].name);
    case RefKind::param:
      return "$" + module.string(module.params[ref.index()].name);
    case RefKind::value:
      return value_name(module, function, ref.index());
    case RefKind::constant: {
      const isa::Constant& constant = module.constants[ref.index()];
      return element_text(constant.dtype, constant.bits);
    }
    case RefKind::string:
      return '"' + module.string(ref.index()) + '"';
    case RefKind::function:
      return module.string(module.functions[ref.index()].name);
    default:
      return "";
  }
}

std::string instruction_text(const Module& module, const Place& place) {
  const isa::Instruction& instruction = instruction_at(module, place);
  std::string text = joined(module, place.function, module.results(instruction));
  if (!text.empty()) text += " = ";
  const isa::OpInfo& op = isa::info(instruction.opcode);
  text += op.mnemonic;
  if (!op.operands.empty() && op.operands[0].access == isa::Access::inout) text += '!';
  const std::string operands = joined(module, place.function, module.operands(instruction));
  return operands.empty() ? text : text + " " + operands;
}

std::string written_text(const Module& module, const Place& place) {
  const std::string_view written = statement_of(source_line(module, place));
  const std::string_view mnemonic = isa::info(instruction_at(module, place).opcode).mnemonic;
  const bool shows_it = written.find(mnemonic) != std::string_view::npos;
  return shows_it && !has_substitution(written) ? single_spaced(written)
                                                : instruction_text(module, place);
}

}  // namespace trek
