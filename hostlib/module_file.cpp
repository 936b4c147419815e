#include "hostlib/module_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "assembler/assemble.h"
#include "assembler/data/data.h"
#include "hostlib/names.h"
#include "isa/codec.h"
#include "isa/codec_format.h"

namespace trek {
namespace {

// A name that ends in .tkb counts too: a binary that lost its first bytes is a broken binary, not text.
bool is_binary(std::string_view path, std::span<const std::byte> bytes) {
  const bool has_magic =
      bytes.size() >= isa::format::kMagic.size() &&
      std::memcmp(bytes.data(), isa::format::kMagic.data(), isa::format::kMagic.size()) == 0;
  return has_magic || path.ends_with(".tkb");
}

// Includes are looked for beside a regular file; a pipe is assembled from what was read of it.
Assembly assemble(const std::string& path, std::span<const std::byte> bytes,
                  const ModuleOptions& options) {
  AssembleOptions assembling;
  assembling.include_dirs = options.include_dirs;
  assembling.defines = options.defines;
  assembling.supplied = options.supplied;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return assemble_file(path, assembling);
  std::string text(bytes.size(), '\0');
  std::transform(bytes.begin(), bytes.end(), text.begin(),
                 [](std::byte byte) { return static_cast<char>(byte); });
  return assemble_text(path, std::move(text), assembling);
}

}  // namespace

isa::Result<ModuleFile> load_module_file(const std::string& path, const ModuleOptions& options,
                                         SourceManager& sources) {
  const isa::Result<std::vector<std::byte>> bytes = read_file(path == "-" ? "/dev/stdin" : path);
  if (!bytes) return bytes.problems();
  if (is_binary(path, *bytes)) {
    isa::Result<isa::Module> module = isa::load_module(*bytes);
    if (!module) return module.take_problems();
    if (!options.defines.empty())
      return problem(isa::ErrorCode::UnknownName,
                     fmt::format("-D {}: the constants of a binary module are fixed",
                                 options.defines.front().first),
                     "assemble its text with another value");
    return ModuleFile{path, module.take()};
  }
  Assembly assembly = assemble(path, *bytes, options);
  sources = std::move(assembly.sources);
  if (!assembly.ok()) return std::move(assembly.problems);
  return ModuleFile{path, std::move(assembly.module)};
}

}  // namespace trek
