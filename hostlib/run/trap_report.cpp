#include "hostlib/run/trap_report.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "hostlib/place.h"
#include "hostlib/values.h"

namespace trek::run {
namespace {

using isa::Module;
using isa::Ref;

// Control characters of a line that came with a file must not reach a terminal.
std::string printable(std::string_view line) {
  std::string text(line);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = c == '\t' ? ' ' : '?';
  return text;
}

// The source line under its number, with the statement underlined; "" where the source is not known.
std::string excerpt(const Module& module, const Place& place) {
  const std::string_view line = source_line(module, place);
  const isa::Location location = location_at(module, place);
  if (location.column == 0 || location.column > line.size()) return "";
  const size_t begin = location.column - 1;
  const size_t length = std::max<size_t>(1, statement_of(line.substr(begin)).size());
  return fmt::format("{:>5} | {}\n      | {}^{}\n", location.line, printable(line),
                     std::string(begin, ' '), std::string(length - 1, '~'));
}

// Where operands broadcast, a trap's element is one of the result, not of an operand.
bool names_result_element(const Module& module, const Place& place) {
  return isa::info(instruction_at(module, place).opcode).alias == isa::AliasRule::elementwise;
}

// The operand whose element a trap names: the indices where there are some, else the first tensor; -1
// where there is none.
int element_operand(const Module& module, const Place& place) {
  if (names_result_element(module, place)) return -1;
  const isa::Instruction& instruction = instruction_at(module, place);
  const isa::OpInfo& op = isa::info(instruction.opcode);
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (op.operands[i].type == isa::TypeRule::U) return static_cast<int>(i);
  const std::span<const Ref> operands = module.operands(instruction);
  const isa::Function& function = function_at(module, place);
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i] && !module.type_of(function, operands[i]).scalar) return static_cast<int>(i);
  return -1;
}

struct OperandLine {
  std::string name;
  std::string what;
};

// A line per operand and per attribute that is a register, for these explain the fault.
std::vector<OperandLine> operand_lines(const Module& module, const Trap& trap) {
  const isa::Instruction& instruction = instruction_at(module, trap.place);
  const isa::Function& function = function_at(module, trap.place);
  const isa::OpInfo& op = isa::info(instruction.opcode);
  const std::span<const Ref> operands = module.operands(instruction);
  const int with_element = trap.element >= 0 ? element_operand(module, trap.place) : -1;
  std::vector<OperandLine> lines;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]) continue;
    const isa::Type type = module.type_of(function, operands[i]);
    const size_t row = std::min(i, op.operands.size() - 1);  // a variadic operand is the row's last
    std::string what =
        fmt::format("{} {}", ref_text(module, trap.place.function, operands[i]), type.text());
    const bool offends = static_cast<int>(i) == with_element && trap.element < type.elements();
    if (offends) what += fmt::format(", element {}", position_text(type.shape, trap.element));
    lines.push_back({std::string(op.operands[row].name), std::move(what)});
  }
  return lines;
}

// The trap's element in the result, or "".
std::string result_line(const Module& module, const Trap& trap) {
  const std::span<const Ref> results = module.results(instruction_at(module, trap.place));
  if (trap.element < 0 || results.empty() || !names_result_element(module, trap.place)) return "";
  const isa::Type type = module.type_of(function_at(module, trap.place), results[0]);
  if (type.scalar || trap.element >= type.elements()) return "";
  return fmt::format("  result {}, element {}\n", type.text(),
                     position_text(type.shape, trap.element));
}

std::string trail(const Module& module, const Place& place, const std::vector<Place>& callers) {
  std::string text =
      fmt::format("  in function {}, instruction {} ({})\n", function_text(module, place),
                  place.instruction, isa::info(instruction_at(module, place).opcode).mnemonic);
  for (const Place& caller : callers)
    text += fmt::format("  called at {} in {}\n", location_text(module, caller),
                        function_text(module, caller));
  return text;
}

}  // namespace

std::string trap_text(const Module& module, const Trap& trap) {
  std::string text =
      fmt::format("{}: trap[{}]: {}\n", location_text(module, trap.place), isa::name(trap.code),
                  printable(trap.detail.empty() ? isa::sentence(trap.code) : trap.detail));
  text += excerpt(module, trap.place);
  text += trail(module, trap.place, trap.callers);
  const std::vector<OperandLine> lines = operand_lines(module, trap);
  size_t width = 0;
  for (const OperandLine& line : lines) width = std::max(width, line.name.size());
  for (const OperandLine& line : lines)
    text += fmt::format("  {:<{}}  {}\n", line.name, width, line.what);
  return text + result_line(module, trap);
}

std::string ending_text(const Module& module, const RunResult& result) {
  const std::string_view kind = result.outcome == Outcome::limit ? "limit reached" : "interrupted";
  return fmt::format("{}: {}{}{}\n{}{}", location_text(module, result.place), kind,
                     result.detail.empty() ? "" : ": ", result.detail,
                     excerpt(module, result.place), trail(module, result.place, {}));
}

}  // namespace trek::run
