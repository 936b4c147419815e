#include "isa/verifier.h"

#include "isa/verifier_parts.h"

namespace trek::isa {

Problems verify(const Module& module) {
  verifier::Report report(module);
  verifier::check_tables(module, report);
  if (!report.empty()) return report.take();
  verifier::check_init(module, report);
  for (const Function& function : module.functions) {
    if (report.full()) break;
    verifier::check_function(module, function, report);
  }
  verifier::check_tests(module, report);
  if (report.empty()) verifier::check_calls(module, report);
  return report.take();
}

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (name.empty() || !letter(name.front())) return false;
  for (char c : name)
    if (!letter(c) && !(c >= '0' && c <= '9')) return false;
  return true;
}

namespace verifier {

void Report::add(ErrorCode code, std::string place, std::string message) {
  if (full()) return;
  Problem problem;
  problem.code = code;
  problem.place = std::move(place);
  problem.message = std::move(message);
  problems_.push_back(std::move(problem));
}

void Report::add(ErrorCode code, const Function& function, size_t instruction,
                 std::string message) {
  if (full()) return;
  const bool is_init = &function == &module_.init;
  const bool exists = instruction < function.code.size();
  const OpInfo* op =
      exists ? find_op(static_cast<uint16_t>(function.code[instruction].opcode)) : nullptr;
  add(code,
      fmt::format(
          "{}, instruction {}{}",
          is_init ? "initialisers" : fmt::format("function {}", module_.strings[function.name]),
          instruction, op == nullptr ? "" : fmt::format(" ({})", op->mnemonic)),
      std::move(message));
  if (is_init) return;
  const auto number = static_cast<size_t>(&function - module_.functions.data());
  if (number >= module_.debug.lines.size()) return;
  const auto& lines = module_.debug.lines[number].code;
  if (instruction >= lines.size()) return;
  const Location& location = lines[instruction];
  problems_.back().where = {location.file, location.line, location.column, 0};
}

bool in_range(const Module& module, const Function& function, Ref ref) {
  const auto within = [&](size_t size) { return ref.index() < size; };
  switch (ref.kind()) {
    case RefKind::none:
      return ref.bits == 0;
    case RefKind::tensor:
      return within(module.tensors.size());
    case RefKind::param:
      return within(module.params.size());
    case RefKind::value:
      return within(function.values.size());
    case RefKind::constant:
      return within(module.constants.size());
    case RefKind::string:
      return within(module.strings.size());
    case RefKind::function:
      return within(module.functions.size());
    case RefKind::number:
      return true;
    case RefKind::list: {
      if (!within(module.lists.size())) return false;
      const uint64_t count = module.lists[ref.index()].bits;
      if (count > module.lists.size() - ref.index() - 1) return false;
      for (Ref item : module.list(ref))
        if (item.is(RefKind::list) || item.is(RefKind::none) || !in_range(module, function, item))
          return false;
      return true;
    }
  }
  return false;
}

}  // namespace verifier
}  // namespace trek::isa
