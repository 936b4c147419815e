#include "assembler/assemble.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "assembler/declarations.h"
#include "isa/verifier.h"

namespace trek {
namespace {

using namespace assembler;

// Constants of the command line: each an expression of its own, in a source manager of its own, so that
// the numbers of source files are those of the module's debug section.
bool define_constants(const AssembleOptions& options, Core& core, isa::Problems& problems) {
  for (const auto& define : options.defines) {
    const std::string& name = define.first;
    const std::string& text = define.second;
    SourceManager sources;
    isa::Module module;
    Core inner(sources, module);
    Expressions expressions(inner);
    const auto file = sources.add("-D " + name, text);
    const auto wrong = [&](std::string message) {
      isa::Problem problem;
      problem.code = isa::ErrorCode::ConstantExpression;
      problem.message = fmt::format("-D {}={}: {}", name, text, message);
      problems.push_back(std::move(problem));
    };
    if (!isa::is_identifier(name) || is_expression_word(name)) {
      wrong("the name of a constant is letters, digits and '_', and no word of the language");
      continue;
    }
    if (!file) continue;
    TextSpan span;
    span.end = static_cast<uint32_t>(text.size());
    inner.stream.push(TokenStream::FrameKind::file, span, nullptr, 0);
    auto value = expressions.parse();
    if (value && !inner.stream.at(TokenKind::end)) inner.unexpected("the end of the value");
    if (inner.reporter.count() > 0 || !value) {
      wrong(inner.reporter.take()[0].message);
      continue;
    }
    if (value->kind == Value::Kind::string) value->text = core.texts.keep(std::string(value->text));
    NamedConstant constant;
    constant.value = *value;
    constant.from_command = true;
    core.constants[core.texts.keep(std::string(name))] = constant;
  }
  return problems.empty();
}

// A constant of the command line that the program does not know: a name that was misspelt, most likely,
// and would change nothing.
void check_defines(const AssembleOptions& options, Core& core) {
  std::vector<std::string_view> names;
  for (const auto& [name, constant] : core.constants)
    if (constant.where.known()) names.push_back(name);
  std::sort(names.begin(), names.end());
  for (const auto& [name, text] : options.defines) {
    if (core.constants[name].wanted) continue;
    isa::Problem problem;
    problem.code = isa::ErrorCode::UnknownName;
    problem.message = fmt::format("-D {}={}: the program has no constant of this name", name, text);
    problem.help = suggest(name, names);
    core.reporter.add(std::move(problem), 0);
  }
}

// Faults that no other error can have caused: the verifier's word on a module that is incomplete.
bool is_independent(isa::ErrorCode code) {
  using isa::ErrorCode;
  return code == ErrorCode::Alias || code == ErrorCode::NotWritable ||
         code == ErrorCode::NotReadable;
}

// The verifier's problems with the length of their statement, and the trail that led to it.
void add_verified(const isa::Module& module, const FunctionParser& functions, isa::Problems found,
                  Reporter& reporter) {
  const bool is_complete = reporter.count() == 0;
  const auto& sources = functions.instruction_sources();
  for (isa::Problem& problem : found) {
    if (!is_complete && !is_independent(problem.code)) continue;
    uint32_t expansion = 0;
    if (problem.where.known()) {
      const isa::Location location{problem.where.file, problem.where.line, problem.where.column};
      for (size_t f = 0; f < module.debug.lines.size() && f < sources.size(); ++f) {
        const auto& lines = module.debug.lines[f].code;
        const auto line = std::find(lines.begin(), lines.end(), location);
        if (line == lines.end()) continue;
        const auto& source = sources[f][static_cast<size_t>(line - lines.begin())];
        problem.where.length = source.length;
        expansion = source.expansion;
        break;
      }
    }
    reporter.add(std::move(problem), expansion);
  }
}

void finish_debug(isa::Module& module, const SourceManager& sources) {
  isa::Debug& debug = module.debug;
  for (uint32_t file = 0; file < sources.size(); ++file) {
    debug.files.push_back(sources.name(file));
    debug.sources.emplace_back(sources.text(file));
  }
  while (!debug.items.empty() && debug.items.back().kind == isa::Debug::ItemKind::blank)
    debug.items.pop_back();
  const auto key = [](const isa::Debug::Spelling& s) {
    return std::tuple(s.where, s.function, s.index, s.slot, s.element);
  };
  std::sort(debug.spellings.begin(), debug.spellings.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  const auto place = [](const isa::Debug::CodeComment& c) {
    return std::tuple(c.function, c.instruction, c.trailing);
  };
  std::sort(debug.comments.begin(), debug.comments.end(),
            [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

isa::Problems in_source_order(isa::Problems problems) {
  std::vector<std::tuple<uint32_t, uint32_t, uint32_t, size_t>> order;
  for (const isa::Problem& problem : problems)
    order.emplace_back(problem.where.file, problem.where.line, problem.where.column, order.size());
  std::sort(order.begin(), order.end());
  isa::Problems sorted;
  for (const auto& place : order) sorted.push_back(std::move(problems[std::get<3>(place)]));
  return sorted;
}

void assemble_source(uint32_t file, const AssembleOptions& options, Assembly& assembly) {
  if (const auto problem = not_text(assembly.sources.text(file), file)) {
    assembly.problems.push_back(*problem);
    return;
  }
  Core core(assembly.sources, assembly.module);
  core.include_dirs = options.include_dirs;
  core.supplied = options.supplied;
  if (!define_constants(options, core, assembly.problems)) return;
  const std::string_view text = assembly.sources.text(file);
  Expressions expressions(core);
  Statements statements(core, expressions);
  FunctionParser functions(core, expressions, statements);
  Declarations declarations(core, expressions, statements, functions);
  TextSpan span;
  span.file = file;
  span.end = static_cast<uint32_t>(text.size());
  core.stream.push(TokenStream::FrameKind::file, span, nullptr, 0);
  declarations.parse();
  check_defines(options, core);
  if (!core.reporter.full())
    add_verified(assembly.module, functions, isa::verify(assembly.module), core.reporter);
  assembly.problems = in_source_order(core.reporter.take());
  if (!assembly.ok()) return;
  if (options.debug) {
    finish_debug(assembly.module, assembly.sources);
  } else {
    assembly.module.debug = {};
  }
}

Assembly assemble_read(Assembly assembly, const isa::Result<uint32_t>& file,
                       const AssembleOptions& options) {
  if (!file) {
    assembly.problems = file.problems();
    return assembly;
  }
  assemble_source(*file, options, assembly);
  return assembly;
}

}  // namespace

Assembly assemble_file(const std::string& path, const AssembleOptions& options) {
  Assembly assembly;
  const auto file = assembly.sources.read(path);
  return assemble_read(std::move(assembly), file, options);
}

Assembly assemble_text(std::string name, std::string text, const AssembleOptions& options) {
  Assembly assembly;
  const auto file = assembly.sources.add(std::move(name), std::move(text));
  return assemble_read(std::move(assembly), file, options);
}

}  // namespace trek
