// trek-run: runs a program on an engine.
//
// Read the command line, find the engine, load the module, then run its tests or the program itself; or
// only say what it is linked to.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <variant>

#include <fmt/format.h>

#include "hostlib/engines.h"
#include "hostlib/module_file.h"
#include "hostlib/run/dump.h"
#include "hostlib/run/options.h"
#include "hostlib/run/output.h"
#include "hostlib/run/program.h"

namespace trek::run {
namespace {

int list_engines() {
  for (const EngineStatus& engine : engines())
    print_out(fmt::format("{:<15} {:<12} {}\n", engine.name,
                          engine.available ? "available" : "unavailable", engine.detail));
  const DefaultEngine chosen = default_engine();
  print_out(fmt::format("without --engine: {}, because {}\n", chosen.name, chosen.reason));
  return printed();
}

// Without waiting for what is still being compiled, which uses the library that a usual end would take apart.
[[noreturn]] void end_at_once(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

isa::Result<ModuleFile> load(const Options& options, SourceManager& sources) {
  ModuleOptions module;
  module.include_dirs = options.include_dirs;
  for (const Assignment& define : options.defines)
    module.defines.emplace_back(define.name, define.value);
  for (const Assignment& input : options.inputs) module.supplied.push_back(input.name);
  return load_module_file(options.file, module, sources);
}

int main(int argc, char** argv) {
  const std::variant<Options, int> parsed = parse_options(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const Options& options = std::get<Options>(parsed);
  if (options.list_engines) return list_engines();

  SourceManager sources;
  if (!options.dump.empty()) {
    const isa::Result<ModuleFile> file = load(options, sources);
    if (file) return dump(options, *file, sources);
    print_problems(file.problems(), sources, options.file);
    return kExitInvalid;
  }
  std::string why;
  const std::unique_ptr<Engine> engine = make_engine(options.engine, why);
  if (engine == nullptr) {
    print_error(fmt::format("trek-run: {}\n", why));
    return kExitNoEngine;
  }
  const isa::Result<ModuleFile> file = load(options, sources);
  if (!file) {
    print_problems(file.problems(), sources, options.file);
    return kExitInvalid;
  }
  const int code = options.test ? run_tests(options, *file, *engine)
                                : run_program(options, *file, *engine, sources);
  if (engine->is_busy()) end_at_once(code);
  return code;
}

}  // namespace
}  // namespace trek::run

int main(int argc, char** argv) { return trek::run::main(argc, argv); }
