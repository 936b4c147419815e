#include "isa/manual/documents.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "isa/manual/page.h"

namespace trek::manual {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPages = "pages";

std::string in_folder(const std::string& folder, std::string_view path) {
  return (fs::path(folder) / path).generic_string();
}

// Generated pages of `folder` that `manual` does not have. Files without the mark are somebody's own.
std::vector<std::string> leftovers(const std::vector<Document>& manual, const std::string& folder) {
  std::vector<std::string> found;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(folder) / kPages, none)) {
    const std::string path = fmt::format("{}/{}", kPages, entry.path().filename().string());
    const bool belongs = std::any_of(manual.begin(), manual.end(), [&](const Document& document) {
      return document.path == path;
    });
    if (belongs || !entry.is_regular_file()) continue;
    const isa::Result<std::string> text = read_file(in_folder(folder, path));
    if (text && text->starts_with(kMark)) found.push_back(path);
  }
  std::sort(found.begin(), found.end());
  return found;
}

isa::Problem not_writable(const std::string& path, const std::string& why) {
  isa::Problem problem;
  problem.code = isa::ErrorCode::NotWritable;
  problem.message = fmt::format("{} cannot be written{}{}", path, why.empty() ? "" : ": ", why);
  return problem;
}

}  // namespace

std::vector<Document> documents(const Inputs& inputs) {
  std::vector<Document> manual = {
      {"README.md", index_page()}, {"errors.md", errors_page()}, {"traps.md", traps_page()}};
  for (const isa::OpInfo& op : isa::all_ops())
    manual.push_back({fmt::format("{}/{}.md", kPages, op.mnemonic), instruction_page(op, inputs)});
  return manual;
}

std::vector<std::string> differences(const std::vector<Document>& manual,
                                     const std::string& folder) {
  std::vector<std::string> lines;
  for (const Document& document : manual) {
    const std::string path = in_folder(folder, document.path);
    const isa::Result<std::string> found = read_file(path);
    if (!found)
      lines.push_back(fmt::format("{} is missing", path));
    else if (*found != document.text)
      lines.push_back(fmt::format("{} is stale", path));
  }
  for (const std::string& path : leftovers(manual, folder))
    lines.push_back(fmt::format("{} is the page of no instruction", in_folder(folder, path)));
  return lines;
}

isa::Result<std::vector<std::string>> write_manual(const std::vector<Document>& manual,
                                                   const std::string& folder) {
  std::error_code failed;
  fs::create_directories(fs::path(folder) / kPages, failed);
  if (failed) return not_writable(in_folder(folder, kPages), failed.message());
  std::vector<std::string> changed;
  for (const Document& document : manual) {
    const std::string path = in_folder(folder, document.path);
    const isa::Result<std::string> found = read_file(path);
    if (found && *found == document.text) continue;
    std::ofstream file(path, std::ios::binary);
    file << document.text;
    file.close();
    if (!file) return not_writable(path, "");
    changed.push_back(path);
  }
  for (const std::string& path : leftovers(manual, folder)) {
    fs::remove(fs::path(folder) / path, failed);
    if (failed) return not_writable(in_folder(folder, path), failed.message());
    changed.push_back(in_folder(folder, path));
  }
  return changed;
}

}  // namespace trek::manual
