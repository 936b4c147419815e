#include "tests/ptx/stream.h"

#include <cstdio>
#include <exception>
#include <set>

#include "tests/ptx/machine.h"

namespace trek::ptx {

namespace {
constexpr int kIllegalAddress = 700;
constexpr int kLaunchFailed = 719;
}  // namespace

void Failure::set(int result, const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (result_ != 0) return;
  result_ = result;
  what_ = what;
  std::fprintf(stderr, "device: %s\n", what.c_str());
}
int Failure::result() const {
  const std::lock_guard lock(mutex_);
  return result_;
}
std::string Failure::what() const {
  const std::lock_guard lock(mutex_);
  return what_;
}
Failure& failure() {
  static Failure kFailure;
  return kFailure;
}

namespace {
std::mutex& streams_mutex() {
  static std::mutex kMutex;
  return kMutex;
}
std::set<Stream*>& streams() {
  static std::set<Stream*> kStreams;
  return kStreams;
}
}  // namespace

Stream::Stream() : thread_([this] { run(); }) {
  const std::lock_guard lock(streams_mutex());
  streams().insert(this);
}

Stream::~Stream() {
  {
    const std::lock_guard lock(streams_mutex());
    streams().erase(this);
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::give(Work work) {
  if (is_recording_) {
    recorded_.push_back(std::move(work));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void Stream::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return works_.empty() && !is_busy_; });
}

void Stream::wait_for_all() {
  const std::lock_guard lock(streams_mutex());
  for (Stream* stream : streams()) stream->wait();
}

bool Stream::is_idle() {
  const std::lock_guard lock(mutex_);
  return works_.empty() && !is_busy_;
}

void Stream::begin_recording() {
  is_recording_ = true;
  recorded_.clear();
}
std::vector<Work> Stream::end_recording() {
  is_recording_ = false;
  return std::move(recorded_);
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !works_.empty(); });
    if (works_.empty()) return;
    const Work work = std::move(works_.front());
    works_.pop_front();
    is_busy_ = true;
    lock.unlock();
    try {
      if (failure().result() == 0) work();
    } catch (const KernelError& error) {
      failure().set(error.kind() == KernelError::address ? kIllegalAddress : kLaunchFailed,
                    error.what());
    } catch (const std::exception& error) {
      failure().set(kLaunchFailed, error.what());
    }
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace trek::ptx
