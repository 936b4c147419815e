// The primary context of a device, and what lives in it.
//
// A Context is opened on one thread and is current there; another thread that uses its objects calls
// make_current() first. What lives in a context (streams, buffers, modules, ...) holds a share of it, so
// the context is released after the last of them whatever the order of destruction. These objects are
// move-only, one owner each; giving one back cannot fail usefully: a device that has failed says so at
// the next synchronisation.
#pragma once

#include <memory>
#include <utility>

#include "emulator/driver/cuda.h"

namespace trek::driver {

class Context {
 public:
  // Opens the device's primary context and makes it current on this thread. A device that Trek does not
  // support is refused by name.
  static Result<Context> open(const Cuda& cuda, int ordinal);

  const CudaApi& api() const { return *state_->api; }
  std::shared_ptr<const CudaApi> shared_api() const { return state_->api; }
  const DeviceInfo& device() const { return state_->device; }
  Status make_current() const;
  // Bytes free on the device now.
  Result<uint64_t> free_memory() const;

 private:
  template <class Handle, auto kRelease>
  friend class Owned;

  struct State {
    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State();

    std::shared_ptr<const CudaApi> api;
    DeviceInfo device;
    CuContext handle = nullptr;
  };
  std::shared_ptr<const State> state_;
};

// A handle that belongs to a context and is given back once, by the function `kRelease` of the driver.
template <class Handle, auto kRelease>
class Owned {
 public:
  Owned() = default;
  Owned(const Context& context, Handle handle) : state_(context.state_), handle_(handle) {}
  Owned(Owned&& other) noexcept
      : state_(std::move(other.state_)), handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      release();
      state_ = std::move(other.state_);
      handle_ = std::exchange(other.handle_, Handle{});
    }
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { release(); }

  Handle get() const { return handle_; }
  const CudaApi& api() const { return *state_->api; }
  int device() const { return state_->device.ordinal; }
  explicit operator bool() const { return handle_ != Handle{}; }

 private:
  void release() {
    if (handle_ == Handle{}) return;
    state_->api->ctx_set_current(state_->handle);
    ((*state_->api).*kRelease)(handle_);
    handle_ = Handle{};
  }

  std::shared_ptr<const Context::State> state_;
  Handle handle_{};
};

}  // namespace trek::driver
