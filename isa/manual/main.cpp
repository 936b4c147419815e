// trek-manual: writes the instruction manual from the table, or says which of its pages are stale.
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "isa/manual/documents.h"
#include "isa/manual/inputs.h"

namespace {

namespace manual = trek::manual;
namespace isa = trek::isa;

// As for every tool of Trek.
enum ExitCode { kDone = 0, kWrongUsage = 1, kInvalidInput = 2, kNotWritten = 5 };

int report(const isa::Problems& problems, ExitCode code) {
  for (const isa::Problem& problem : problems) {
    fmt::print(stderr, "trek-manual: error[{}]: {}\n", isa::code(problem.code), problem.message);
    if (!problem.help.empty()) fmt::print(stderr, "  {}\n", problem.help);
  }
  return code;
}

int check(const std::vector<manual::Document>& documents, const std::string& folder) {
  const std::vector<std::string> lines = manual::differences(documents, folder);
  for (const std::string& line : lines) fmt::print(stderr, "trek-manual: {}\n", line);
  if (lines.empty()) return kDone;
  fmt::print(stderr, "trek-manual --out {} brings them up to date\n", folder);
  return kWrongUsage;
}

int write(const std::vector<manual::Document>& documents, const std::string& folder) {
  const auto changed = manual::write_manual(documents, folder);
  if (!changed) return report(changed.problems(), kNotWritten);
  fmt::print("trek-manual: {} of {} files changed\n", changed->size(), documents.size());
  return kDone;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Writes the manual of Trek's instructions from the instruction table."};
  std::string out;
  std::string examples = "isa/manual/examples";
  std::string accuracy = "isa/semantics/accuracy.json";
  bool only_check = false;
  app.add_option("--out", out, "The manual's folder")->required();
  app.add_flag("--check", only_check, "Write nothing; exit 1 and name the pages that are stale");
  app.add_option("--examples", examples,
                 "Folder with MNEMONIC.trek for each instruction, default " + examples);
  app.add_option("--accuracy", accuracy, "Figures that trek-accuracy wrote, default " + accuracy);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? kDone : kWrongUsage;
  }

  const isa::Result<manual::Inputs> inputs = manual::read_inputs(examples, accuracy);
  if (!inputs) return report(inputs.problems(), kInvalidInput);
  const std::vector<manual::Document> documents = manual::documents(*inputs);
  return only_check ? check(documents, out) : write(documents, out);
}
