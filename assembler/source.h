// Source texts: files read once, kept whole, and named by a number.
//
// A SourceRange names a file of a SourceManager. Texts stay where they are for the manager's life, so
// that tokens and names can be views into them. Offsets are 32 bits wide: a text has less than 2 GiB.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "isa/result.h"

namespace trek {

inline constexpr uint64_t kMaxSourceBytes = (uint64_t{1} << 31) - 1;

class SourceManager {
 public:
  // A text that is not a file: standard input, a test. Returns its number, or file-unreadable where it
  // is too long.
  isa::Result<uint32_t> add(std::string name, std::string text);
  // A file, read once: the same file under another path has the same number. "-" is standard input.
  isa::Result<uint32_t> read(const std::string& path);

  uint32_t size() const { return static_cast<uint32_t>(files_.size()); }
  const std::string& name(uint32_t file) const { return files_[file].name; }
  std::string_view text(uint32_t file) const { return files_[file].text; }
  // The folder that relative paths in a file start from: "" for the current one.
  std::string folder(uint32_t file) const;
  // Line `line` (from 1) without its end; "" beyond the last.
  std::string_view line(uint32_t file, uint32_t line) const;

 private:
  struct File {
    std::string name;
    std::string text;
    // Where the last asked line begins: problems come in ascending order, so asking for each line is
    // linear in all.
    mutable uint32_t known_line = 1;
    mutable size_t known_offset = 0;
  };
  std::deque<File> files_;
  std::unordered_map<std::string, uint32_t> by_path_;  // canonical path
};

// What is wrong with a file of another kind: one word, where its bytes would give a hundred problems.
std::optional<isa::Problem> not_text(std::string_view text, uint32_t file);

}  // namespace trek
