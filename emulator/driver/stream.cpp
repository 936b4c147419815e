#include "emulator/driver/stream.h"

#include <fmt/format.h>

namespace trek::driver {

Result<Event> Event::create(const Context& context) {
  const CudaApi& api = context.api();
  CuEvent handle = nullptr;
  if (Status status = api.check(api.event_create(&handle, 0), "creating an event"); !status) {
    return status.error();
  }
  Event event;
  event.handle_ = {context, handle};
  return event;
}

Status Event::synchronize() const {
  const CudaApi& api = handle_.api();
  return api.check(api.event_synchronize(handle()),
                   fmt::format("waiting for an event on device {}", handle_.device()));
}

Result<double> Event::seconds_since(const Event& begin) const {
  const CudaApi& api = handle_.api();
  float milliseconds = 0;
  Status status = api.check(api.event_elapsed_time(&milliseconds, begin.handle(), handle()),
                            "reading the time between two events");
  if (!status) return status.error();
  return static_cast<double>(milliseconds) / 1000;
}

Result<Stream> Stream::create(const Context& context) {
  const CudaApi& api = context.api();
  CuStream handle = nullptr;
  if (Status status =
          api.check(api.stream_create(&handle, kStreamNonBlocking), "creating a stream");
      !status) {
    return status.error();
  }
  Stream stream;
  stream.handle_ = {context, handle};
  return stream;
}

Status Stream::synchronize() const {
  const CudaApi& api = handle_.api();
  return api.check(api.stream_synchronize(handle()),
                   fmt::format("waiting for work on device {}", handle_.device()));
}

Result<bool> Stream::is_done() const {
  const CudaApi& api = handle_.api();
  const CuResult result = api.stream_query(handle());
  if (result == kCudaErrorNotReady) return false;
  const Status status =
      api.check(result, fmt::format("looking at work on device {}", handle_.device()));
  if (!status) return status.error();
  return true;
}

Status Stream::record(const Event& event) const {
  const CudaApi& api = handle_.api();
  return api.check(api.event_record(event.handle(), handle()), "recording an event");
}

Status Stream::wait(const Event& event) const {
  const CudaApi& api = handle_.api();
  return api.check(api.stream_wait_event(handle(), event.handle(), 0),
                   "making a stream wait for an event");
}

Result<Graph> Graph::capture(const Context& context, const Stream& stream,
                             const std::function<Status()>& enqueue) {
  const CudaApi& api = context.api();
  if (Status status = api.check(api.stream_begin_capture(stream.handle(), kCaptureThreadLocal),
                                "beginning to record a graph");
      !status) {
    return status.error();
  }
  const Status enqueued = enqueue();
  CuGraph recorded = nullptr;
  const CuResult ended = api.stream_end_capture(stream.handle(), &recorded);
  const Owned<CuGraph, &CudaApi::graph_destroy> graph(context, recorded);
  if (!enqueued) return enqueued.error();
  if (Status status = api.check(ended, "recording a graph"); !status) return status.error();

  Graph result;
  if (Status status = api.check(api.graph_get_nodes(recorded, nullptr, &result.nodes_),
                                "counting the nodes of a graph");
      !status) {
    return status.error();
  }
  CuGraphExec exec = nullptr;
  if (Status status = api.check(api.graph_instantiate(&exec, recorded, 0),
                                fmt::format("instantiating a graph of {} nodes", result.nodes_));
      !status) {
    return status.error();
  }
  result.handle_ = {context, exec};
  return result;
}

Status Graph::launch(const Stream& stream) const {
  const CudaApi& api = handle_.api();
  return api.check(api.graph_launch(handle_.get(), stream.handle()),
                   fmt::format("launching a graph of {} nodes", nodes_));
}

}  // namespace trek::driver
