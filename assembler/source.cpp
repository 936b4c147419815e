#include "assembler/source.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trek {
namespace {

isa::Problem unreadable(const std::string& path, std::string_view reason) {
  isa::Problem problem;
  problem.code = isa::ErrorCode::FileUnreadable;
  problem.message = fmt::format("cannot read '{}': {}", path, reason);
  return problem;
}

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// Reads to the end, but no more than a source may have: a device never ends.
isa::Result<std::string> read_all(std::FILE* file, const std::string& path) {
  std::string text;
  if (struct stat status{}; fstat(fileno(file), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return unreadable(path, "it is a folder");
    if (S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) <= kMaxSourceBytes)
      text.reserve(static_cast<size_t>(status.st_size));
  }
  constexpr size_t kChunk = size_t{1} << 16;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kChunk);
    const size_t got = std::fread(text.data() + before, 1, kChunk, file);
    text.resize(before + got);
    if (text.size() > kMaxSourceBytes) return unreadable(path, "it has 2 GiB or more");
    if (got < kChunk) break;
  }
  if (std::ferror(file) != 0) return unreadable(path, std::strerror(errno));
  return text;
}

std::string canonical(const std::string& path) {
  std::error_code error;
  const auto found = std::filesystem::canonical(path, error);
  return error ? path : found.string();
}

}  // namespace

isa::Result<uint32_t> SourceManager::add(std::string name, std::string text) {
  if (text.size() > kMaxSourceBytes) return unreadable(name, "it has 2 GiB or more");
  files_.push_back({std::move(name), std::move(text)});
  return static_cast<uint32_t>(files_.size() - 1);
}

isa::Result<uint32_t> SourceManager::read(const std::string& path) {
  if (path == "-") {
    auto text = read_all(stdin, "standard input");
    if (!text) return text.take_problems();
    return add("<stdin>", text.take());
  }
  const std::string key = canonical(path);
  if (const auto found = by_path_.find(key); found != by_path_.end()) return found->second;
  const std::unique_ptr<std::FILE, Closer> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return unreadable(path, std::strerror(errno));
  auto text = read_all(file.get(), path);
  if (!text) return text.take_problems();
  auto added = add(path, text.take());
  if (added) by_path_.emplace(key, *added);
  return added;
}

std::string SourceManager::folder(uint32_t file) const {
  const std::string& path = files_[file].name;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string_view SourceManager::line(uint32_t file, uint32_t line) const {
  const File& source = files_[file];
  const std::string_view text = source.text;
  if (line < source.known_line) {
    source.known_line = 1;
    source.known_offset = 0;
  }
  while (source.known_line < line) {
    const size_t end = text.find('\n', source.known_offset);
    if (end == std::string_view::npos) return "";
    source.known_offset = end + 1;
    ++source.known_line;
  }
  std::string_view found = text.substr(source.known_offset);
  found = found.substr(0, std::min(found.find('\n'), found.size()));
  if (!found.empty() && found.back() == '\r') found.remove_suffix(1);
  return found;
}

std::optional<isa::Problem> not_text(std::string_view text, uint32_t file) {
  constexpr size_t kLook = size_t{1} << 16;
  const size_t zero = text.substr(0, kLook).find('\0');
  const bool is_module = text.starts_with("\x89TREK");
  if (zero == std::string_view::npos && !is_module) return std::nullopt;
  isa::Problem problem;
  problem.code = isa::ErrorCode::InvalidCharacter;
  problem.message = is_module ? "this is a binary module" : "this is no text: it has a zero byte";
  if (is_module) problem.help = "trek-dis writes it as text";
  problem.where = {file, 1, 1, 1};
  return problem;
}

}  // namespace trek
