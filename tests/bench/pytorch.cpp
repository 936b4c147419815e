#include "tests/bench/pytorch.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace trek::bench {
namespace {

using Clock = std::chrono::steady_clock;

const char* const kDoing = "asking PyTorch";

struct Pipe {
  int read = -1;
  int write = -1;
};

// Neither end is handed on to a process that is started, but for what it is given as its own.
Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error{"making a pipe", "", std::strerror(errno)};
  return Pipe{ends[0], ends[1]};
}

}  // namespace

PyTorch::PyTorch(std::string python, std::string script)
    : python_(std::move(python)), script_(std::move(script)) {
  // A process that has ended is an answer that does not come, not our end.
  std::signal(SIGPIPE, SIG_IGN);
  static_cast<void>(start());  // if it fails, the first request says why
}

Status PyTorch::start() {
  if (process_ != 0) return Done{};
  const Result<Pipe> to = make_pipe();
  if (!to) return to.error();
  const Result<Pipe> from = make_pipe();
  if (!from) return from.error();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to->read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from->write, STDOUT_FILENO);
  std::string words[] = {python_, script_};
  char* arguments[] = {words[0].data(), words[1].data(), nullptr};
  pid_t process = 0;
  const int error = posix_spawnp(&process, python_.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to->read);
  close(from->write);
  if (error != 0) {
    close(to->write);
    close(from->read);
    return Error{"starting " + python_, "", std::strerror(error)};
  }
  process_ = process;
  ++generation_;
  to_ = to->write;
  from_ = from->read;
  return Done{};
}

void PyTorch::stop() {
  if (process_ == 0) return;
  close(to_);
  close(from_);
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = 0;
  read_.clear();
}

Result<std::string> PyTorch::answer_within(int seconds) {
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    const size_t newline = read_.find('\n');
    if (newline != std::string::npos) {
      std::string line = read_.substr(0, newline);
      read_.erase(0, newline + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd waited = {from_, POLLIN, 0};
    if (left.count() <= 0 || poll(&waited, 1, static_cast<int>(left.count())) == 0)
      return Error{kDoing, "", fmt::format("no answer in {} s", seconds)};
    char part[4096];
    const ssize_t got = read(from_, part, sizeof part);
    if (got <= 0) return Error{kDoing, "", "the process has ended"};
    read_.append(part, static_cast<size_t>(got));
  }
}

Result<nlohmann::json> PyTorch::ask(const nlohmann::json& request, int seconds) {
  if (Status started = start(); !started) return started.error();
  const std::string line = request.dump() + "\n";
  const bool written = write(to_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const Result<std::string> text =
      written ? answer_within(seconds) : Error{kDoing, "", std::strerror(errno)};
  if (!text) {
    stop();
    return Error{fmt::format("{} for {}", kDoing, line.substr(0, line.size() - 1)), "",
                 text.error().detail};
  }
  const nlohmann::json answer = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return Error{kDoing, "", "the answer is no JSON object: " + *text};
  if (answer.value("broken", false)) stop();
  if (answer.contains("error") && answer["error"].is_string())
    return Error{kDoing, "", answer["error"].get<std::string>()};
  return answer;
}

measure::Contender PyTorch::contender(std::string name, std::string network, std::string form,
                                      bool tf32) {
  const nlohmann::json request = {
      {"do", "time"}, {"network", std::move(network)}, {"form", std::move(form)}, {"tf32", tf32}};
  return {std::move(name), [this, request]() -> Result<double> {
            const Result<nlohmann::json> answer = ask(request);
            if (!answer) return answer.error();
            return answer->value("seconds", 0.0);
          }};
}

}  // namespace trek::bench
