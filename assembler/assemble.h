// Text to module: the front end's one door.
//
//   Assembly assembly = assemble_file("mlp.trek", {});
//   if (!assembly.ok()) print(render(assembly.problems, assembly.sources));
//
// All problems of a source are found in one pass; the module is complete and verified exactly if there
// are none.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assembler/source.h"
#include "isa/module.h"

namespace trek {

struct AssembleOptions {
  std::vector<std::string> include_dirs;  // for `.include`, behind the file's own folder
  std::vector<std::pair<std::string, std::string>>
      defines;  // name and expression: override `.const`
  // Names of inputs and states whose data somebody else gives: `extern` files of theirs are not read.
  std::vector<std::string> supplied;
  bool debug = true;  // keep the debug sections
};

struct Assembly {
  isa::Module module;
  SourceManager sources;  // places of problems, and of the module's debug lines, name its files
  isa::Problems problems;
  bool ok() const { return problems.empty(); }
};

// "-" is standard input.
Assembly assemble_file(const std::string& path, const AssembleOptions& options = {});
Assembly assemble_text(std::string name, std::string text, const AssembleOptions& options = {});

}  // namespace trek
