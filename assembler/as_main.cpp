// trek-as: text to a binary module.
#include <cstdio>
#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "assembler/assemble.h"
#include "assembler/data/data.h"
#include "assembler/diagnostics.h"
#include "assembler/format.h"
#include "assembler/listing.h"
#include "isa/codec.h"

namespace {

constexpr int kDone = 0;
constexpr int kWrongUsage = 1;
constexpr int kInvalidInput = 2;
constexpr int kOutputFailed = 5;

struct Options {
  std::string input;
  std::string output;
  std::vector<std::string> include_dirs;
  std::vector<std::string> defines;
  bool check = false;
  bool format = false;
  bool listing = false;
  bool strip = false;
};

int report(const trek::isa::Problems& problems, const trek::SourceManager& sources,
           const std::string& file, int exit_code) {
  trek::RenderOptions options;
  options.colour = trek::wants_colour(STDERR_FILENO);
  options.file = file;
  const std::string text = trek::render(problems, sources, options);
  std::fwrite(text.data(), 1, text.size(), stderr);
  return exit_code;
}

// Where a module goes that is not told where: beside its source, with another ending.
std::string output_beside(const std::string& input) {
  if (input == "-") return "-";
  const size_t name = input.rfind('/') + 1;  // npos + 1 is 0
  const size_t dot = input.rfind('.');
  const bool has_ending = dot != std::string::npos && dot > name;
  return (has_ending ? input.substr(0, dot) : input) + ".tkb";
}

int write(const std::string& output, std::span<const std::byte> bytes) {
  const auto problems = trek::write_file(output == "-" ? "/dev/stdout" : output, bytes);
  return problems.empty() ? kDone : report(problems, {}, "", kOutputFailed);
}

int write_text(const std::string& output, const std::string& text) {
  return write(output.empty() ? "-" : output, std::as_bytes(std::span(text)));
}

bool is_syntax(trek::isa::ErrorCode code) {
  using trek::isa::ErrorCode;
  return code == ErrorCode::InvalidCharacter || code == ErrorCode::UnterminatedString ||
         code == ErrorCode::InvalidNumber || code == ErrorCode::UnexpectedToken ||
         code == ErrorCode::Unclosed;
}

// A part of a program that does not assemble by itself can be formatted; what is no Trek text cannot.
int format(const Options& options, const trek::AssembleOptions& assemble_options) {
  trek::Assembly assembly = trek::assemble_file(options.input, assemble_options);
  if (assembly.sources.size() == 0)
    return report(assembly.problems, assembly.sources, "", kInvalidInput);
  std::erase_if(assembly.problems, [](const trek::isa::Problem& p) {
    return !is_syntax(p.code) || p.where.file != 0;
  });
  if (!assembly.ok()) return report(assembly.problems, assembly.sources, "", kInvalidInput);
  const auto text = trek::format_source(assembly.sources, 0);
  if (!text) return report(text.problems(), assembly.sources, "", kInvalidInput);
  return write_text(options.output, *text);
}

int assemble(const Options& options, const trek::AssembleOptions& assemble_options) {
  const trek::Assembly assembly = trek::assemble_file(options.input, assemble_options);
  if (!assembly.ok())
    return report(assembly.problems, assembly.sources, options.input, kInvalidInput);
  if (options.check) return kDone;
  if (options.listing) {
    // What is listed is the file: numbered as the encoder numbers.
    const auto decoded = trek::isa::decode(trek::isa::encode(assembly.module));
    if (!decoded) return report(decoded.problems(), {}, options.input, kInvalidInput);
    return write_text(options.output, trek::list_module(*decoded));
  }
  trek::isa::EncodeOptions encode;
  if (options.strip) encode = trek::isa::EncodeOptions::core();
  const auto bytes = trek::isa::encode(assembly.module, encode);
  return write(options.output.empty() ? output_beside(options.input) : options.output, bytes);
}

// A module written over its own source would be the end of that.
bool is_over_source(const Options& options) {
  std::error_code error;
  const bool is_same = std::filesystem::equivalent(options.input, options.output, error);
  if (options.format || options.output.empty() || error || !is_same) return false;
  std::fprintf(stderr, "trek-as: the output '%s' is the source\n", options.output.c_str());
  return true;
}

// NAME=VALUE, or nothing where it is not.
bool split_defines(const Options& options, trek::AssembleOptions& assemble_options) {
  for (const std::string& define : options.defines) {
    const size_t equals = define.find('=');
    if (equals == std::string::npos || equals == 0) {
      std::fprintf(stderr, "trek-as: -D wants NAME=VALUE, found '%s'\n", define.c_str());
      return false;
    }
    assemble_options.defines.emplace_back(define.substr(0, equals), define.substr(equals + 1));
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Assembles Trek text into a binary module.", "trek-as");
  Options options;
  app.add_option("FILE", options.input, "the source (.trek), - for standard input")->required();
  app.add_option("-o", options.output, "write to this file; by default FILE with the ending .tkb");
  app.add_option("-I", options.include_dirs, "look for included files in this folder too")
      ->allow_extra_args(false);
  app.add_option("-D", options.defines, "NAME=VALUE: set a constant, over what .const says")
      ->allow_extra_args(false);
  auto* check = app.add_flag("--check", options.check, "only report what is wrong");
  auto* format_flag =
      app.add_flag("--format", options.format, "write the source in canonical form instead");
  auto* listing = app.add_flag("--listing", options.listing,
                               "write each instruction with its record, place and types instead");
  app.add_flag("--strip", options.strip,
               "leave names, lines, sources and comments out of the module");
  check->excludes(format_flag)->excludes(listing);
  format_flag->excludes(listing);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kWrongUsage;
  }
  trek::AssembleOptions assemble_options;
  assemble_options.include_dirs = options.include_dirs;
  if (!split_defines(options, assemble_options) || is_over_source(options)) return kWrongUsage;
  return options.format ? format(options, assemble_options) : assemble(options, assemble_options);
}
