#include "emulator/driver/toolkit.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill() is POSIX's
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trek::driver {
namespace {

namespace fs = std::filesystem;

// How long nobody looks whether a program has ended, or is not wanted any more.
constexpr auto kLook = std::chrono::milliseconds(5);

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

// A file of no folder, in memory: nothing is left of it however this process ends. A program that is run has it under
// the same number.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : number_(::memfd_create(name, MFD_CLOEXEC)) {
    if (number_ < 0 || number_ > STDERR_FILENO) return;
    // This process has a standard stream closed: the program's own is not to take its place.
    const int above = ::fcntl(number_, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    ::close(number_);
    number_ = above;
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  std::string path() const { return fmt::format("/proc/self/fd/{}", number_); }
  bool write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(number_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return number_ >= 0;
  }
  std::string read() const {
    std::string bytes;
    std::array<char, 65536> piece{};
    for (ssize_t n = 0;
         (n = ::pread(number_, piece.data(), piece.size(), static_cast<off_t>(bytes.size()))) > 0;)
      bytes.append(piece.data(), static_cast<size_t>(n));
    return bytes;
  }

 private:
  int number_;
};

// Waits for a child's end, which it is told to hurry where nobody wants what it does.
int wait_for(pid_t child, const std::atomic<bool>* cancelled) {
  int status = 0;
  bool told = false;
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, cancelled == nullptr ? 0 : WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return -1;
    if (cancelled == nullptr) continue;
    if (!told && cancelled->load()) told = ::kill(child, SIGKILL) == 0;
    std::this_thread::sleep_for(kLook);
  }
}

// Runs a program that has `shared` open, to its end or until it is cancelled; gives what it wrote to both outputs.
Result<std::string> run_with(const std::string& path, std::string_view doing,
                             const std::vector<std::string>& arguments,
                             std::initializer_list<const MemoryFile*> shared,
                             const std::atomic<bool>* cancelled) {
  const auto failed = [&](std::string what, std::string detail) {
    return Error{fmt::format("{} with {}", doing, path), std::move(what), std::move(detail)};
  };
  const MemoryFile said("said");
  if (said.number() < 0) return failed("no file in memory", std::strerror(errno));

  std::vector<char*> line = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) line.push_back(const_cast<char*>(argument.c_str()));
  line.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, said.number(), 1);
  posix_spawn_file_actions_adddup2(&files, said.number(), 2);
  for (const MemoryFile* file : shared)  // onto itself: it stays open there
    posix_spawn_file_actions_adddup2(&files, file->number(), file->number());
  // Not of the terminal's group: who interrupts this program says by itself what is not wanted any more.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int begun = ::posix_spawn(&child, path.c_str(), &files, &attributes, line.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (begun != 0) return failed("it does not start", std::strerror(begun));

  const int status = wait_for(child, cancelled);
  if (cancelled != nullptr && cancelled->load()) return failed("cancelled", "");
  std::string words = said.read();
  words.erase(words.find_last_not_of("\n ") + 1);
  if (status == -1) return failed("it cannot be waited for", words);
  if (WIFSIGNALED(status))
    return failed(fmt::format("ended by signal {}", WTERMSIG(status)), words);
  if (WEXITSTATUS(status) != 0)
    return failed(fmt::format("exit code {}", WEXITSTATUS(status)), words);
  return words;
}

}  // namespace

std::optional<Tool> Tool::find(const char* name, const char* variable) {
  if (const char* named = std::getenv(variable)) {
    if (*named == '\0') return std::nullopt;
    return Tool(named);
  }
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "" : path;
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
    const fs::path program = fs::path(folder) / name;
    if (!folder.empty() && is_program(program)) return Tool(program.string());
  }
  const fs::path usual = fs::path("/usr/local/cuda/bin") / name;
  if (is_program(usual)) return Tool(usual.string());
  return std::nullopt;
}
std::optional<Tool> Tool::ptxas() { return find("ptxas", "TREK_PTXAS"); }
std::optional<Tool> Tool::nvdisasm() { return find("nvdisasm", "TREK_NVDISASM"); }

Result<Version> Tool::toolkit() const {
  const auto said = run_with(path_, "asking for the version", {"--version"}, {}, nullptr);
  if (!said) return said.error();
  // "Cuda compilation tools, release 13.0, V13.0.88"
  const size_t at = said->find("release ");
  Version version;
  if (at == std::string::npos ||
      std::sscanf(said->c_str() + at, "release %d.%d", &version.major, &version.minor) != 2)
    return Error{fmt::format("asking for the version with {}", path_), "it does not say", *said};
  return version;
}

Result<std::string> Tool::assemble(std::string_view name, std::string_view ptx,
                                   std::string_view target,
                                   const std::atomic<bool>* cancelled) const {
  const std::string doing = fmt::format("assembling {} for {}", name, target);
  const MemoryFile source("source.ptx");
  const MemoryFile made("made.cubin");
  if (!source.write(ptx) || made.number() < 0)
    return Error{doing, "no file in memory", std::strerror(errno)};
  auto said =
      run_with(path_, doing, {"-arch", std::string(target), source.path(), "-o", made.path()},
               {&source, &made}, cancelled);
  if (!said) return said.error();
  std::string cubin = made.read();
  if (cubin.empty()) return Error{doing, "ptxas made no cubin", *said};
  return cubin;
}

Result<std::string> Tool::disassemble(std::string_view name, std::string_view cubin) const {
  const std::string doing = fmt::format("disassembling {}", name);
  const MemoryFile source("source.cubin");
  if (!source.write(cubin)) return Error{doing, "no file in memory", std::strerror(errno)};
  return run_with(path_, doing, {"-c", source.path()}, {&source}, nullptr);
}

}  // namespace trek::driver
