#include "hostlib/run/interrupt.h"

#include <csignal>
#include <string_view>

#include <unistd.h>

namespace trek::run {
namespace {

// A handler reaches nothing but globals; it may use lock-free atomics, write and _exit only.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void handle_stop_signal(int) {
  if (stop_requested.exchange(true)) _exit(kExitInterrupted);
  constexpr std::string_view kNotice = "\nstopping; once more to end at once\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kNotice.data(), kNotice.size());
}

}  // namespace

const std::atomic<bool>& stop_on_signals() {
  struct sigaction action = {};
  action.sa_handler = handle_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A reader of our output that goes away is a failed write (exit code 5), not the end of a training run.
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
  return stop_requested;
}

}  // namespace trek::run
