#include "emulator/ref/thread_pool.h"

namespace trek::ref {
namespace {

// Long enough for a job that follows the last at once, short enough to leave the core to others.
constexpr int kPatience = 2000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  const auto cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int count = threads > 0 ? threads : cores;
  patience_ = count <= cores ? kPatience : 0;
  workers_.reserve(static_cast<size_t>(count - 1));
  for (int i = 1; i < count; ++i) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  ends_.store(true, std::memory_order_release);
  state_.fetch_add(kNextJob, std::memory_order_release);
  state_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_job(const Job& job) {
  job_ = job;
  next_.store(0, std::memory_order_relaxed);
  const uint64_t number = (state_.load(std::memory_order_relaxed) / kNextJob + 1) * kNextJob;
  state_.store(number | kOpen, std::memory_order_release);
  state_.notify_all();
  take_tasks();
  // Closed: whoever is inside finishes the task that he has.
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int i = 0; state_.load(std::memory_order_acquire) != number; ++i) {
    if (i < kPatience) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::take_tasks() {
  for (int64_t i = next_.fetch_add(1, std::memory_order_relaxed); i < job_.tasks;
       i = next_.fetch_add(1, std::memory_order_relaxed))
    job_.call(job_.body, i);
}

void ThreadPool::work() {
  uint64_t seen = 0;  // the number of the last job that this thread looked at
  while (true) {
    uint64_t state = state_.load(std::memory_order_acquire);
    for (int i = 0; state / kNextJob == seen && i < patience_; ++i) {
      pause();
      state = state_.load(std::memory_order_acquire);
    }
    if (state / kNextJob == seen) {
      state_.wait(state, std::memory_order_acquire);
      continue;
    }
    if (ends_.load(std::memory_order_acquire)) return;
    seen = state / kNextJob;
    while ((state & kOpen) != 0 && state / kNextJob == seen) {
      if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) continue;
      take_tasks();
      state_.fetch_sub(1, std::memory_order_acq_rel);
      break;
    }
  }
}

}  // namespace trek::ref
