// What the measurements of the ceilings share: a stream, a clock, the loaded kernels, random buffers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "emulator/driver/cublas.h"
#include "emulator/driver/memory.h"
#include "emulator/driver/module.h"
#include "emulator/measure/ceilings.h"
#include "emulator/measure/gpu_clock.h"

namespace trek::measure {

class CeilingBench {
 public:
  static Result<CeilingBench> create(const driver::Context& context, const CeilingOptions& options);

  const driver::Context& context() const { return context_; }
  const driver::Stream& stream() const { return *stream_; }
  const CeilingOptions& options() const { return *options_; }
  int multiprocessors() const { return context_.device().multiprocessors; }
  Result<driver::Kernel> kernel(const std::string& name) const { return module_->kernel(name); }
  // Enough blocks of 256 threads to fill the device, for kernels that stride over their elements.
  driver::LaunchShape filling_shape() const;

  // `sets` times `count` buffers, each filled with its own random numbers of the type.
  Result<std::vector<driver::DeviceBuffer>> random_buffers(driver::GemmType type, uint64_t elements,
                                                           int count) const;
  // A part of a buffer, on the host.
  template <class T>
  Result<std::vector<T>> download(const driver::DeviceBuffer& buffer, uint64_t first,
                                  uint64_t count) const {
    std::vector<T> values(count);
    Status status =
        buffer.download(*stream_, std::as_writable_bytes(std::span(values)), first * sizeof(T));
    if (status) status = stream_->synchronize();
    if (!status) return status.error();
    return values;
  }
  // Seconds on the device of what is enqueued, as a contender's sample.
  Result<double> seconds(const std::function<Status()>& enqueue) const {
    return clock_->seconds(*stream_, enqueue);
  }

  void add(Figure figure);
  Ceilings& results() { return results_; }

 private:
  explicit CeilingBench(const driver::Context& context) : context_(context) {}
  driver::Context context_;
  const CeilingOptions* options_ = nullptr;
  std::optional<driver::Stream> stream_;
  std::optional<driver::Module> module_;
  std::optional<GpuClock> clock_;
  Ceilings results_;
};

// The error of a measurement whose work came out wrong.
Error wrong(const std::string& what, const std::string& detail);

// Takes one of the sets of buffers after the other.
class Turn {
 public:
  explicit Turn(int sets) : sets_(sets) {}
  size_t next() { return static_cast<size_t>(turn_++ % sets_); }

 private:
  int sets_;
  int turn_ = 0;
};

// One group of ceilings each; figures go into the bench's results.
Status measure_copy(CeilingBench& bench);
Status measure_add(CeilingBench& bench);
Status measure_matmul(CeilingBench& bench);
Status measure_barrier(CeilingBench& bench);
Status measure_launch(CeilingBench& bench);

}  // namespace trek::measure
