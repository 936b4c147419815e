// Threads that live as long as a program and work on one job at a time.
//
// A job is a number of independent tasks; which thread takes which is not determined, so nothing that
// a task computes may depend on it. The calling thread works too, and a job ends when its tasks are
// done, whether or not the other threads have come to help.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace trek::ref {

class ThreadPool {
 public:
  // `threads` in all, the caller among them; 0: as many as the machine has.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(i) once for each i in [0, tasks) and returns when all have returned.
  template <class Body>
  void run(int64_t tasks, Body&& body) {
    if (tasks <= 1 || workers_.empty()) {
      for (int64_t i = 0; i < tasks; ++i) body(i);
      return;
    }
    run_job({&body,
             [](void* f, int64_t i) { (*static_cast<std::remove_reference_t<Body>*>(f))(i); },
             tasks});
  }

  // Calls body(begin, end) for ranges that make up [0, n), each at least `grain` long (but the last),
  // beginning at multiples of `unit`. Work of less than two grains stays on the calling thread.
  template <class Body>
  void ranges(int64_t n, int64_t grain, int64_t unit, Body&& body) {
    if (n <= 0) return;
    // Four ranges a thread even out what threads take unequally long for.
    const int64_t parts =
        std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, int64_t{4} * threads());
    const int64_t length = (n / parts + unit) / unit * unit;
    if (parts == 1 || length >= n || workers_.empty()) return body(int64_t{0}, n);
    run((n + length - 1) / length,
        [&](int64_t i) { body(i * length, std::min(n, (i + 1) * length)); });
  }

 private:
  struct Job {
    void* body = nullptr;
    void (*call)(void*, int64_t) = nullptr;
    int64_t tasks = 0;
  };
  void run_job(const Job& job);
  void work();
  void take_tasks();

  // The job's number, whether it is open to helpers, and how many are in it. A helper enters by a
  // compare-and-swap, so none enters a job that is closed.
  static constexpr uint64_t kOpen = uint64_t{1} << 31;
  static constexpr uint64_t kNextJob = uint64_t{1} << 32;

  Job job_;
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<bool> ends_{false};
  int patience_ = 0;  // how often a helper looks for a job before it sleeps
  std::vector<std::thread> workers_;
};

}  // namespace trek::ref
