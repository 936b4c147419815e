#include "emulator/measure/gpu_clock.h"

namespace trek::measure {

using driver::Event;
using driver::Result;
using driver::Status;

Result<GpuClock> GpuClock::create(const driver::Context& context) {
  Result<Event> begin = Event::create(context);
  if (!begin) return begin.error();
  Result<Event> end = Event::create(context);
  if (!end) return end.error();
  return GpuClock(begin.take(), end.take());
}

Result<double> GpuClock::seconds(const driver::Stream& stream,
                                 const std::function<Status()>& enqueue) const {
  Status status = stream.record(begin_);
  if (status) status = enqueue();
  if (status) status = stream.record(end_);
  if (status) status = end_.synchronize();
  if (!status) return status.error();
  return end_.seconds_since(begin_);
}

}  // namespace trek::measure
