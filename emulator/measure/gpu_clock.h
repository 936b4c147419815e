// Time on the device, between two events around enqueued work; and how many copies of the data rotate
// so that no round finds it in the cache.
#pragma once

#include <functional>

#include "emulator/driver/stream.h"

namespace trek::measure {

class GpuClock {
 public:
  static driver::Result<GpuClock> create(const driver::Context& context);

  // Seconds on the device of what `enqueue` puts on the stream; waits for it.
  driver::Result<double> seconds(const driver::Stream& stream,
                                 const std::function<driver::Status()>& enqueue) const;

 private:
  GpuClock(driver::Event begin, driver::Event end)
      : begin_(std::move(begin)), end_(std::move(end)) {}
  driver::Event begin_;
  driver::Event end_;
};

// How many sets of buffers, `bytes` each, take turns so that three times the L2 passes between two uses
// of one. At least 2.
inline int sets_past_cache(uint64_t bytes, uint64_t l2_bytes) {
  if (bytes == 0) return 2;
  const uint64_t sets = 3 * l2_bytes / bytes + 2;
  return static_cast<int>(sets < 4096 ? sets : 4096);
}

}  // namespace trek::measure
