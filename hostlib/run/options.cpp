#include "hostlib/run/options.h"

#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/plan/plan.h"
#include "hostlib/run/output.h"
#include "hostlib/tensor_file.h"

namespace trek::run {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 wrong usage, 2 invalid input, 3 trap or limit reached, 4 engine not\n"
    "available, 5 output could not be written, 130 interrupted.";

std::optional<uint64_t> parse_count(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const plan::Device& device : plan::known_devices()) names.push_back(device.name);
  names.emplace_back(kDeviceHere);
  return names;
}

// A number of bytes: digits, then k, M or G for powers of 1024.
std::optional<uint64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kSuffixes = "kKmMgG";
  const size_t suffix = text.empty() ? std::string_view::npos : kSuffixes.find(text.back());
  const int shift = suffix == std::string_view::npos ? 0 : 10 * static_cast<int>(suffix / 2 + 1);
  if (shift != 0) text.remove_suffix(1);
  const std::optional<uint64_t> value = parse_count(text);
  if (!value || *value > std::numeric_limits<uint64_t>::max() >> shift) return std::nullopt;
  return *value << shift;
}

// What the command line gives as text, before it is taken apart.
struct Texts {
  std::vector<std::string> inputs, settings, outputs, defines;
  std::string seed;
  std::string limit_instructions;
  std::string limit_memory;
  std::string numerics = "strict";
};

void add_options(CLI::App& app, Options& options, Texts& texts) {
  const auto repeated = [&](const char* flags, std::vector<std::string>& target,
                            const char* meaning, const char* form) {
    app.add_option(flags, target, meaning)->type_name(form)->allow_extra_args(false);
  };
  app.add_option("FILE", options.file, "A program: text (.trek) or binary (.tkb)")->type_name("");
  app.add_option("--engine", options.engine,
                 "What executes the program; else the best that is here (see --list-engines)")
      ->type_name("NAME");
  app.add_option("--numerics", texts.numerics,
                 "strict: defined to the last bit; fast: within stated bounds")
      ->type_name("")
      ->check(CLI::IsMember({"strict", "fast"}).description("strict|fast"))
      ->capture_default_str();
  repeated("--input", texts.inputs,
           "Bind an input or a stream to .npy, .idx, .gz, .safetensors[:MEMBER], .raw or .bin",
           "NAME=FILE");
  repeated("--set", texts.settings, "Set a parameter", "NAME=VALUE");
  repeated("--output", texts.outputs,
           "Write an output or state to .npy, .safetensors, .raw or .bin", "NAME=FILE");
  app.add_option("--save", options.save, "Write all state after the run")
      ->type_name("FILE.safetensors");
  app.add_option("--state", options.state, "Read all state before the run")
      ->type_name("FILE.safetensors");
  app.add_option("--seed", texts.seed, "Mixed into the keys of random instructions; 0 leaves them")
      ->type_name("N");
  app.add_option("--threads", options.threads, "Threads; 0 is as many as the machine has")
      ->type_name("N")
      ->check(CLI::Range(0, 4096).description(""));
  app.add_flag("--profile", options.profile, "Print where the time went");
  app.add_flag(
      "--tune", options.tune,
      "Measure the tiles that the program's products may have on the engine's device, use\n"
      "the fastest and keep them for other runs (in $TREK_TUNED, a file or off)");
  app.add_option("--json", options.json, "Write everything about the run as JSON")
      ->type_name("FILE");
  app.add_option("--trace", options.trace,
                 "Write a Chrome trace, which Perfetto opens; its instructions are those of the\n"
                 "engine ref, which is taken if none is named")
      ->type_name("FILE");
  app.add_flag("--digest", options.digest, "Print NAME type[shape] HASH of each output and state");
  app.add_flag("--quiet", options.quiet,
               "No progress and no values: errors, and what other options ask for");
  app.add_option("--limit-instructions", texts.limit_instructions,
                 "Stop after so many executed instructions")
      ->type_name("N");
  app.add_option("--limit-memory", texts.limit_memory, "Memory for tensors; suffixes k, M, G")
      ->type_name("BYTES");
  repeated("-I", options.include_dirs, "Where to look for included files", "DIR");
  repeated("-D", texts.defines, "Override a .const of the program", "NAME=VALUE");
  app.add_flag("--test", options.test, "Run the tests in the file instead");
  app.add_option(
         "--dump", options.dump,
         "Print what the program becomes, and do not run it: its plan and what is fused for a\n"
         "device, what the engine jit makes of it here, or (ptx, sass) for a device")
      ->type_name("")
      ->check(CLI::IsMember({"plan", "fusion", "ir", "asm", "ptx", "sass"})
                  .description("plan|fusion|ir|asm|ptx|sass"));
  app.add_option(
         "--device", options.device,
         "The device that --dump links for, with --engine jit as that does for a GPU; here is\n"
         "that of --engine, for plan and fusion")
      ->type_name("")
      ->check(CLI::IsMember(device_names())
                  .description(fmt::format("{}", fmt::join(device_names(), "|"))))
      ->capture_default_str();
  app.add_flag("--list-engines", options.list_engines,
               "List the engines, why one cannot run here, and which is taken if none is named");
  app.set_version_flag("--version", fmt::format("trek-run {} (ISA {}.{})", TREK_VERSION,
                                                isa::kVersionMajor, isa::kVersionMinor));
}

// NAME=VALUE, both not empty.
std::vector<Assignment> split(const std::vector<std::string>& texts, std::string_view flag,
                              std::vector<std::string>& problems) {
  std::vector<Assignment> assignments;
  for (const std::string& text : texts) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size())
      problems.push_back(fmt::format("{} {}: wanted NAME=VALUE", flag, text));
    else
      assignments.push_back({text.substr(0, at), text.substr(at + 1)});
  }
  return assignments;
}

std::string_view bare_name(std::string_view name) {
  if (name.starts_with('@') || name.starts_with('$')) name.remove_prefix(1);
  return name;
}

// A name given twice would leave one of the two without effect.
void check_repeated(const std::vector<Assignment>& assignments, std::string_view flag,
                    std::vector<std::string>& problems) {
  std::map<std::string_view, int> seen;
  for (const Assignment& assignment : assignments)
    if (++seen[bare_name(assignment.name)] == 2)
      problems.push_back(fmt::format("{} {} is given twice", flag, assignment.name));
}

// Every file that a run writes, each at most once.
void check_written_files(const Options& options, std::vector<std::string>& problems) {
  std::map<std::string_view, int> seen;
  const auto check = [&](std::string_view file) {
    const bool device = file.starts_with("/dev/");
    if (!file.empty() && !device && ++seen[file] == 2)
      problems.push_back(fmt::format("{} would be written twice", file));
  };
  for (const Assignment& output : options.outputs) {
    check(output.value);
    if (!output.value.starts_with("/dev/") && !is_writable_format(format_of_name(output.value)))
      problems.push_back(
          fmt::format("--output {}={}: a tensor is written as .npy, .safetensors, .raw or .bin",
                      output.name, output.value));
  }
  check(options.save);
  check(options.json);
  check(options.trace);
}

void check_combinations(const Options& options, std::vector<std::string>& problems) {
  if (options.file.empty() && !options.list_engines) problems.emplace_back("no FILE given");
  const bool runs_main =
      !options.inputs.empty() || !options.settings.empty() || !options.outputs.empty() ||
      !options.save.empty() || !options.state.empty() || !options.json.empty() ||
      !options.trace.empty() || options.digest || options.profile || options.tune;
  if (!options.dump.empty() && (runs_main || options.test))
    problems.emplace_back("--dump runs nothing: no other input or output, and no tests");
  if (options.device == kDeviceHere && options.dump != "plan" && options.dump != "fusion")
    problems.emplace_back("--device here is for --dump plan and --dump fusion");
  if (options.test && runs_main)
    problems.emplace_back(
        "--test takes inputs and results from the tests: no other input or output");
}

std::vector<std::string> take_apart(Texts& texts, Options& options) {
  std::vector<std::string> problems;
  options.inputs = split(texts.inputs, "--input", problems);
  options.settings = split(texts.settings, "--set", problems);
  options.outputs = split(texts.outputs, "--output", problems);
  options.defines = split(texts.defines, "-D", problems);
  check_repeated(options.inputs, "--input", problems);
  check_repeated(options.settings, "--set", problems);
  if (texts.numerics == "fast") options.numerics = NumericsMode::fast;
  const auto number = [&](const char* flag, const std::string& text, auto parse, uint64_t least,
                          uint64_t& target) {
    if (text.empty()) return;
    const std::optional<uint64_t> value = parse(text);
    if (value && *value >= least)
      target = *value;
    else
      problems.push_back(fmt::format("{} {}: wanted a number from {}", flag, text, least));
  };
  number("--seed", texts.seed, parse_count, 0, options.seed);
  number("--limit-instructions", texts.limit_instructions, parse_count, 1,
         options.limit_instructions);
  number("--limit-memory", texts.limit_memory, parse_bytes, 1, options.limit_memory);
  if (options.engine.empty() && !options.trace.empty()) options.engine = kTracingEngine;
  check_written_files(options, problems);
  check_combinations(options, problems);
  return problems;
}

}  // namespace

std::variant<Options, int> parse_options(int argc, char** argv) {
  Options options;
  Texts texts;
  CLI::App app("Runs a Trek program.", "trek-run");
  app.footer(kExitCodes);
  add_options(app, options, texts);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  options.command.assign(argv, argv + argc);
  const std::vector<std::string> problems = take_apart(texts, options);
  for (const std::string& found : problems) print_error(fmt::format("trek-run: {}\n", found));
  if (!problems.empty()) {
    print_error("Run with --help for more information.\n");
    return kExitUsage;
  }
  return options;
}

}  // namespace trek::run
