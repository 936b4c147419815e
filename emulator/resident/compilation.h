// Compiling while an image is executed as it is. A compilation cannot be ended at any place, so whoever does not want
// it any more cancels it and goes on; its thread ends where it next looks, and a Background waits for that.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "emulator/plan/plan.h"
#include "emulator/resident/encode.h"
#include "emulator/resident/machine.h"
#include "isa/result.h"

namespace trek::resident {

// What becomes of one image.
class Compilation {
 public:
  Compilation(std::shared_ptr<const Machine> machine, std::shared_ptr<const plan::Plan> plan,
              Image image)
      : machine_(std::move(machine)), plan_(std::move(plan)), image_(std::move(image)) {}

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  // Waits until it is done; not, and then false, where a host wants to stop.
  bool wait(const std::atomic<bool>* stop);
  void cancel() { cancelled_ = true; }

  // Once it is done: the image, changed to suit the code; and the code, or why there is none.
  const Image& image() const { return image_; }
  const isa::Result<std::shared_ptr<const MachineCode>>& code() const { return code_; }
  uint64_t nanoseconds() const { return nanoseconds_; }

 private:
  friend class Background;
  void run();

  std::shared_ptr<const Machine> machine_;
  std::shared_ptr<const plan::Plan> plan_;
  Image image_;
  isa::Result<std::shared_ptr<const MachineCode>> code_ = std::shared_ptr<const MachineCode>();
  uint64_t nanoseconds_ = 0;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> done_ = false;
  std::mutex mutex_;
  std::condition_variable is_over_;
};

// The threads that compile.
class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  // Cancels what is under way, and waits for it.
  ~Background();

  void begin(std::shared_ptr<Compilation> compilation);
  bool is_busy() const;

 private:
  struct Worker {
    std::shared_ptr<Compilation> compilation;
    std::thread thread;
  };
  mutable std::mutex mutex_;
  std::vector<Worker> workers_;
};

}  // namespace trek::resident
