// Text to binary and back for a module of a million instructions, beside SPIR-V's tools on as many. Whole
// processes are timed, as a user waits for them: start, reading, writing.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emulator/measure/cpu_clock.h"
#include "tests/bench/bench.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace trek::bench {
namespace {

// A chain of additions, each with a name of its own.
std::string trek_text(int instructions) {
  std::string text =
      ".trek 1.0\n.input @a f32[4]\n.output @y f32[4]\n.func main() {\n  %v0 = add @a, @a\n";
  for (int i = 1; i < instructions - 1; ++i) {
    text += fmt::format("  %v{} = add %v{}, @a\n", i, i - 1);
  }
  return text + fmt::format("  @y = add %v{}, @a\n}}\n", instructions - 2);
}

// The same chain in SPIR-V's text.
std::string spirv_text(int instructions) {
  std::string text =
      "OpCapability Shader\nOpMemoryModel Logical GLSL450\n"
      "OpEntryPoint GLCompute %main \"main\"\nOpExecutionMode %main LocalSize 1 1 1\n"
      "%void = OpTypeVoid\n%function = OpTypeFunction %void\n%f32 = OpTypeFloat 32\n"
      "%a = OpConstant %f32 1.5\n%main = OpFunction %void None %function\n%entry = OpLabel\n"
      "%v0 = OpFAdd %f32 %a %a\n";
  for (int i = 1; i < instructions; ++i) {
    text += fmt::format("%v{} = OpFAdd %f32 %v{} %a\n", i, i - 1);
  }
  return text + "OpReturn\nOpFunctionEnd\n";
}

// Seconds that a command took; its output goes nowhere, and it must exit with 0.
Result<double> time_command(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::string doing = "running " + words[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  int error = 0;
  int status = 0;
  const double seconds = measure::cpu_seconds([&] {
    pid_t child = 0;
    error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
    if (error == 0 && waitpid(child, &status, 0) != child) error = errno;
  });
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Error{doing, "", std::strerror(error)};
  if (status != 0) return Error{doing, "", fmt::format("it ended with status {:#x}", status)};
  return seconds;
}

measure::Contender command(std::vector<std::string> words) {
  return {words[0], [words] { return time_command(words); }};
}

std::string first_line_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return "";
  char line[256] = "";
  const char* read = std::fgets(line, sizeof line, pipe);
  pclose(pipe);
  const std::string text = read == nullptr ? "" : read;
  return text.substr(0, text.find('\n'));
}

}  // namespace

Status bench_assembler(const Options& options, Recorder& recorder) {
  const TemporaryFolder folder;
  if (!folder.ok()) return Error{"making a temporary folder", "", std::strerror(errno)};
  const int instructions = options.quick ? 10000 : 1000000;
  const std::string trek = folder.file("chain.trek");
  const std::string tkb = folder.file("chain.tkb");
  const std::string spvasm = folder.file("chain.spvasm");
  const std::string spv = folder.file("chain.spv");
  Status written = measure::write_file(trek, trek_text(instructions));
  if (written) written = measure::write_file(spvasm, spirv_text(instructions));
  if (!written) return written;
  recorder.add_version("spirv-tools", first_line_of("spirv-as --version"));

  const measure::Contender as = command({options.tools + "/trek-as", trek, "-o", tkb});
  const measure::Contender spirv_as = command({"spirv-as", spvasm, "-o", spv});
  const measure::Contender dis =
      command({options.tools + "/trek-dis", tkb, "-o", folder.file("back.trek")});
  // Raw ids and no indent: the fastest that spirv-dis has.
  const measure::Contender spirv_dis =
      command({"spirv-dis", "--raw-id", "--no-indent", spv, "-o", folder.file("back.spvasm")});

  const Result<measure::Comparison> assembled = measure::compare(as, spirv_as, options.rounds);
  if (!assembled) return assembled.error();
  recorder.add({fmt::format("assemble {} instructions", instructions), "trek-as", "spirv-as",
                *assembled, 1});
  const Result<measure::Comparison> disassembled = measure::compare(dis, spirv_dis, options.rounds);
  if (!disassembled) return disassembled.error();
  recorder.add({fmt::format("disassemble {} instructions", instructions), "trek-dis", "spirv-dis",
                *disassembled, 1});
  return Done{};
}

}  // namespace trek::bench
