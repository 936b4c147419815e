// A module from a file: text (.trek) is assembled, binary (.tkb) is decoded and verified; which it is
// the first bytes say, not the name.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "assembler/source.h"
#include "isa/module.h"
#include "isa/result.h"

namespace trek {

struct ModuleFile {
  std::filesystem::path path;  // what the module's external data is relative to
  isa::Module module;
};

struct ModuleOptions {
  std::vector<std::string> include_dirs;                     // -I
  std::vector<std::pair<std::string, std::string>> defines;  // -D NAME=VALUE
  std::vector<std::string>
      supplied;  // as AssembleOptions::supplied; of a binary nothing is read here
};

// A verified module. Problems of text point into `sources`, which keeps every file that was read, for
// rendering (assembler/diagnostics.h).
isa::Result<ModuleFile> load_module_file(const std::string& path, const ModuleOptions& options,
                                         SourceManager& sources);

}  // namespace trek
