// Streams, events and graphs: the order of work on a device, and points in it.
#pragma once

#include <functional>

#include "emulator/driver/context.h"

namespace trek::driver {

class Event {
 public:
  // An event that remembers when it was reached.
  static Result<Event> create(const Context& context);

  CuEvent handle() const { return handle_.get(); }
  // Waits until the device has reached it.
  Status synchronize() const;
  // Seconds from `begin`, reached before this one; both must have been reached.
  Result<double> seconds_since(const Event& begin) const;

 private:
  Owned<CuEvent, &CudaApi::event_destroy> handle_;
};

class Stream {
 public:
  // A stream that does not wait for the default stream.
  static Result<Stream> create(const Context& context);

  CuStream handle() const { return handle_.get(); }
  // Waits for everything enqueued. A fault of a kernel shows here.
  Status synchronize() const;
  // Whether everything enqueued has been done; does not wait. A fault of a kernel shows here, too.
  Result<bool> is_done() const;
  Status record(const Event& event) const;
  Status wait(const Event& event) const;

 private:
  Owned<CuStream, &CudaApi::stream_destroy> handle_;
};

// Work recorded once and launched as a whole.
class Graph {
 public:
  // Records what `enqueue` puts on the stream, which executes nothing meanwhile. Its error, if it has
  // one, is the result and ends the recording.
  static Result<Graph> capture(const Context& context, const Stream& stream,
                               const std::function<Status()>& enqueue);

  Status launch(const Stream& stream) const;
  size_t nodes() const { return nodes_; }

 private:
  Owned<CuGraphExec, &CudaApi::graph_exec_destroy> handle_;
  size_t nodes_ = 0;
};

}  // namespace trek::driver
