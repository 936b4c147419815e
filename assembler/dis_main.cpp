// trek-dis: a binary module as text.
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "assembler/data/data.h"
#include "assembler/diagnostics.h"
#include "assembler/format.h"
#include "assembler/printer.h"
#include "isa/codec.h"

namespace {

constexpr int kDone = 0;
constexpr int kWrongUsage = 1;
constexpr int kInvalidInput = 2;
constexpr int kOutputFailed = 5;

struct Options {
  std::string input;
  std::string output;
  bool plain = false;
};

int report(const trek::isa::Problems& problems, const std::string& file, int exit_code) {
  trek::RenderOptions options;
  options.colour = trek::wants_colour(STDERR_FILENO);
  options.file = file;
  const std::string text = trek::render(problems, trek::SourceManager(), options);
  std::fwrite(text.data(), 1, text.size(), stderr);
  return exit_code;
}

// In the layout of trek-as --format: columns where a person reads. Nobody reads a text this long, and
// aligning it would take longer than all the rest.
std::string laid_out(std::string text) {
  constexpr size_t kLongestRead = size_t{1} << 20;
  if (text.size() > kLongestRead) return text;
  trek::SourceManager sources;
  const auto file = sources.add("disassembly", text);
  if (!file.ok()) return text;
  auto formatted = trek::format_source(sources, *file);
  return formatted.ok() ? formatted.take() : text;
}

trek::isa::Problems write(const std::string& text, const std::string& output) {
  const bool to_stdout = output.empty() || output == "-";
  return trek::write_file(to_stdout ? "/dev/stdout" : output, std::as_bytes(std::span(text)));
}

int disassemble(const Options& options) {
  auto bytes = trek::read_file(options.input == "-" ? "/dev/stdin" : options.input);
  if (!bytes.ok()) return report(bytes.problems(), options.input, kInvalidInput);
  auto module = trek::isa::load_module(*bytes);
  if (!module.ok()) return report(module.problems(), options.input, kInvalidInput);
  trek::PrintOptions print;
  print.names = print.source_form = !options.plain;
  const std::string text = laid_out(trek::print(*module, print));
  const auto problems = write(text, options.output);
  return problems.empty() ? kDone : report(problems, options.output, kOutputFailed);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes a binary module as text that assembles to the same module.", "trek-dis");
  Options options;
  app.add_option("FILE", options.input, "the module (.tkb), - for standard input")->required();
  app.add_option("-o", options.output, "write to this file instead of standard output");
  app.add_flag("--plain", options.plain,
               "leave out what the debug sections say: names, comments, spellings");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kWrongUsage;
  }
  return disassemble(options);
}
