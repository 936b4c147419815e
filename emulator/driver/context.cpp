#include "emulator/driver/context.h"

#include <fmt/format.h>

namespace trek::driver {

Context::State::~State() { api->primary_ctx_release(device.ordinal); }

Result<Context> Context::open(const Cuda& cuda, int ordinal) {
  Result<std::vector<DeviceInfo>> devices = cuda.devices();
  if (!devices) return devices.error();
  const std::string doing = fmt::format("opening device {}", ordinal);
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices->size()) {
    return Error{doing, "", fmt::format("there are {}, counted from 0", devices->size())};
  }
  const DeviceInfo& device = (*devices)[static_cast<size_t>(ordinal)];
  if (!device.supported()) return Error{doing, "", device.refusal()};

  const CudaApi& api = cuda.api();
  CuContext handle = nullptr;
  if (Status status = api.check(api.primary_ctx_retain(&handle, ordinal), doing); !status) {
    return status.error();
  }
  Context context;
  auto state = std::make_shared<State>();
  state->api = cuda.shared_api();
  state->device = device;
  state->handle = handle;
  context.state_ = std::move(state);
  if (Status status = context.make_current(); !status) return status.error();
  return context;
}

Status Context::make_current() const {
  return api().check(api().ctx_set_current(state_->handle),
                     fmt::format("making device {} current", device().ordinal));
}

Result<uint64_t> Context::free_memory() const {
  size_t free = 0;
  size_t total = 0;
  Status status =
      api().check(api().mem_get_info(&free, &total),
                  fmt::format("asking device {} for its free memory", device().ordinal));
  if (!status) return status.error();
  return uint64_t{free};
}

}  // namespace trek::driver
