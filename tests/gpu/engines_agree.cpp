// engines-agree ENGINE [--modules N] [--first SEED] [--elements N]: random modules leave on an engine what
// they leave on the reference: every output and state tensor to the bit (NaNs are one value), every
// emitted value, and where they trap the same trap. A module that differs is named by its seed; the first
// ones are written beside, as programs to run again. Exit code: 0 all agree, 1 wrong usage, 3 some do not,
// 4 the engine cannot run here.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "assembler/printer.h"
#include "hostlib/digest.h"
#include "hostlib/engines.h"
#include "isa/convert.h"
#include "tests/property/random_module.h"

namespace trek {
namespace {

constexpr int kWritten = 5;

struct Left {
  std::vector<std::string> tensors;  // "@name type: digest"
  std::vector<std::string> emitted;
  std::string trap;
  std::string problem;
  bool operator==(const Left&) const = default;
};

Left left_by(Engine& engine, const isa::Module& module) {
  Left left;
  LoadOptions load;
  load.threads = 1;
  auto program = engine.load(module, load);
  if (!program) {
    for (const isa::Problem& problem : program.problems()) left.problem += problem.message + "; ";
    return left;
  }
  RunOptions options;
  options.emit = [&](const Emitted& value) {
    left.emitted.push_back(fmt::format("{} {} {}", value.name, value.type.text(),
                                       digest(value.type.dtype, value.bytes).text()));
  };
  const RunResult result = (*program)->run(options);
  if (result.trap) {
    const Trap& trap = *result.trap;
    left.trap = fmt::format("{} at {}:{}, element {}: {}", isa::name(trap.code),
                            trap.place.function, trap.place.instruction, trap.element, trap.detail);
    for (const Place& caller : trap.callers)
      left.trap += fmt::format(", called at {}:{}", caller.function, caller.instruction);
    left.emitted
        .clear();  // what precedes a trap may or may not have been emitted by tasks after it
    return left;
  }
  if (result.outcome != Outcome::done) {
    left.problem = "did not end: " + result.detail;
    return left;
  }
  for (uint32_t i = 0; i < module.tensors.size(); ++i) {
    const isa::TensorDecl& decl = module.tensors[i];
    if (decl.role == isa::Role::stream) continue;
    const isa::Type& type = module.type(decl.type);
    left.tensors.push_back(fmt::format("@{} {} {}", module.string(decl.name), type.text(),
                                       digest(type.dtype, (*program)->read(i)).text()));
  }
  return left;
}

void explain(const Left& want, const Left& got) {
  if (want.problem != got.problem)
    fmt::print("    problem: ref \"{}\", engine \"{}\"\n", want.problem, got.problem);
  if (want.trap != got.trap)
    fmt::print("    trap: ref \"{}\"\n          engine \"{}\"\n", want.trap, got.trap);
  const auto lines = [](const char* what, const auto& a, const auto& b) {
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      const std::string one = i < a.size() ? a[i] : "nothing";
      const std::string other = i < b.size() ? b[i] : "nothing";
      if (one != other) fmt::print("    {}: ref {}, engine {}\n", what, one, other);
    }
  };
  if (want.trap.empty() && got.trap.empty()) {
    lines("tensor", want.tensors, got.tensors);
    lines("emitted", want.emitted, got.emitted);
  }
}

int compare(Engine& engine, uint64_t first, uint64_t modules, int64_t elements) {
  std::string why;
  const auto ref = make_engine("ref", why);
  property::RandomOptions options;
  options.executable = true;
  options.debug = false;
  options.tests = false;
  uint64_t differing = 0;
  uint64_t trapped = 0;
  uint64_t refused = 0;
  for (uint64_t seed = first; seed < first + modules; ++seed) {
    // Mostly small shapes, some of several tiles.
    options.elements = seed % 8 == 0 ? elements : seed % 2 == 0 ? 600 : 40;
    const isa::Module module = property::random_module(seed, options);
    const Left want = left_by(*ref, module);
    const Left got = left_by(engine, module);
    trapped += want.trap.empty() ? 0 : 1;
    refused += want.problem.empty() ? 0 : 1;
    // An initialiser that fails is a problem on both, in words of their own.
    if (want == got || (!want.problem.empty() && !got.problem.empty())) continue;
    fmt::print("  seed {} (elements {}) differs\n", seed, options.elements);
    explain(want, got);
    if (++differing <= kWritten) {
      const std::string name = fmt::format("differs-{}.trek", seed);
      std::ofstream(name) << print(module);
    }
    if (differing == 50) break;
  }
  fmt::print("{} modules against ref: {} differ ({} trap, {} are refused by both)\n", modules,
             differing, trapped, refused);
  return differing == 0 ? 0 : 3;
}

}  // namespace
}  // namespace trek

int main(int argc, char** argv) {
  std::string name;
  uint64_t modules = 1000;
  uint64_t first = 1;
  int64_t elements = 20'000;
  CLI::App app("Compares an engine with the reference over random modules");
  app.add_option("ENGINE", name, "The engine to compare")->required();
  app.add_option("--modules", modules, "How many");
  app.add_option("--first", first, "The first one's seed");
  app.add_option("--elements", elements, "Of the largest tensors, at most");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  std::string why;
  const auto engine = trek::make_engine(name, why);
  if (engine == nullptr) {
    fmt::print(stderr, "engines-agree: {}\n", why);
    return 4;
  }
  fmt::print("{}: {}\n", name, engine->description());
  return trek::compare(*engine, first, modules, elements);
}
