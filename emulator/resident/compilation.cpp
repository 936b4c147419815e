#include "emulator/resident/compilation.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace trek::resident {

void Compilation::run() {
  const auto began = std::chrono::steady_clock::now();
  Phases phases;
  code_ = machine_->compile(*plan_, image_, phases, {true, &cancelled_});
  nanoseconds_ = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - began)
          .count());
  const std::lock_guard lock(mutex_);
  done_.store(true, std::memory_order_release);
  is_over_.notify_all();
}

bool Compilation::wait(const std::atomic<bool>* stop) {
  constexpr auto kLook = std::chrono::milliseconds(20);  // a signal's handler cannot wake us
  std::unique_lock lock(mutex_);
  while (!is_over_.wait_for(lock, kLook, [&] { return is_done(); }))
    if (stop != nullptr && stop->load()) return false;
  return true;
}

Background::~Background() {
  for (Worker& worker : workers_) worker.compilation->cancel();
  for (Worker& worker : workers_) worker.thread.join();
}

void Background::begin(std::shared_ptr<Compilation> compilation) {
  const std::lock_guard lock(mutex_);
  std::erase_if(workers_, [](Worker& worker) {
    if (!worker.compilation->is_done()) return false;
    worker.thread.join();
    return true;
  });
  Compilation* of = compilation.get();
  workers_.push_back({std::move(compilation), std::thread([of] { of->run(); })});
}

bool Background::is_busy() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return !worker.compilation->is_done(); });
}

}  // namespace trek::resident
