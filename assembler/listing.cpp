#include "assembler/listing.h"

#include <bit>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

namespace trek {
namespace {

using isa::Ref;

class Listing {
 public:
  explicit Listing(const isa::Module& module) : module_(module) {}

  std::string write() {
    if (module_.init.code.size() > 1) function(module_.init, nullptr, "initialisers");
    for (size_t f = 0; f < module_.functions.size(); ++f) {
      const auto* lines = f < module_.debug.lines.size() ? &module_.debug.lines[f].code : nullptr;
      function(module_.functions[f], lines,
               "function " + module_.string(module_.functions[f].name));
    }
    return std::move(out_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void function(const isa::Function& function, const std::vector<isa::Location>* lines,
                const std::string& title) {
    put("{}{}: {} instructions, {} registers\n", out_.empty() ? "" : "\n", title,
        function.code.size(), function.values.size());
    for (size_t i = 0; i < function.code.size(); ++i) {
      const isa::Instruction& instruction = function.code[i];
      put("{:6}  {}  {:<14}", i, record(instruction), isa::info(instruction.opcode).mnemonic);
      std::string_view separator;
      for (Ref result : module_.results(instruction)) {
        put("{}{}", separator, module_.type_of(function, result).text());
        separator = ", ";
      }
      if (lines != nullptr && i < lines->size()) source((*lines)[i]);
      while (out_.back() == ' ') out_.pop_back();
      out_ += '\n';
    }
  }

  // The fixed-size record as it stands in the file, little-endian.
  static std::string record(const isa::Instruction& instruction) {
    unsigned char bytes[sizeof instruction];
    std::memcpy(bytes, &instruction, sizeof instruction);
    static_assert(std::endian::native == std::endian::little);
    std::string hex;
    for (unsigned char byte : bytes) fmt::format_to(std::back_inserter(hex), "{:02x}", byte);
    return hex;
  }

  void source(const isa::Location& location) {
    if (location.line == 0 || location.file >= module_.debug.files.size()) return;
    put("  ; {}:{}", module_.debug.files[location.file], location.line);
    if (location.file < module_.debug.sources.size()) put("  {}", line_of(location));
  }

  // Lines are asked for in ascending order, mostly: the place of the last is kept.
  std::string_view line_of(const isa::Location& location) {
    const std::string_view text = module_.debug.sources[location.file];
    if (location.file != known_.file || location.line < known_.line) {
      known_ = {location.file, 1, 0};
      offset_ = 0;
    }
    while (known_.line < location.line) {
      const size_t end = text.find('\n', offset_);
      if (end == std::string_view::npos) return "";
      offset_ = end + 1;
      ++known_.line;
    }
    std::string_view line = text.substr(offset_, text.find('\n', offset_) - offset_);
    const size_t first = line.find_first_not_of(" \t");
    line.remove_prefix(std::min(first, line.size()));
    return line.substr(0, 100);
  }

  const isa::Module& module_;
  std::string out_;
  isa::Location known_{UINT32_MAX, 1, 0};
  size_t offset_ = 0;
};

}  // namespace

std::string list_module(const isa::Module& module) { return Listing(module).write(); }

}  // namespace trek
