// A stream of the interpreted device: a thread that does one thing after the other. What fails is kept for all streams,
// as a context's error is.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace trek::ptx {

using Work = std::function<void()>;

// The first thing that went wrong, and after which nothing is done any more.
class Failure {
 public:
  void set(int result, const std::string& what);
  int result() const;
  std::string what() const;

 private:
  mutable std::mutex mutex_;
  int result_ = 0;
  std::string what_;
};
Failure& failure();

class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  // Does it behind all that was given before; while the stream is recorded, keeps it instead.
  void give(Work work);
  void wait();
  // Until nothing is done on any stream.
  static void wait_for_all();
  bool is_idle();

  void begin_recording();
  bool is_recording() const { return is_recording_; }
  std::vector<Work> end_recording();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> works_;
  bool is_busy_ = false;
  bool ends_ = false;
  bool is_recording_ = false;
  std::vector<Work> recorded_;
  std::thread thread_;
};

}  // namespace trek::ptx
