#include "emulator/device/host.h"

#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "emulator/device/execute.h"

namespace trek::device {

Fault execute_on_host(const Node& node, int64_t first, int64_t count,
                      const Environment& environment, uint32_t threads) {
  struct alignas(16) Line {
    std::byte bytes[16];
  };
  const auto shared = std::make_unique_for_overwrite<Line[]>(kSharedBytes / sizeof(Line));
  Fault fault = kNoFault;
  Block block;
  block.threads = threads;
  block.shared = reinterpret_cast<std::byte*>(shared.get());
  block.shared_bytes = kSharedBytes;
  if (threads == 1) {
    execute(block, node, first, count, environment, &fault);
    return fault;
  }
  std::barrier<> barrier(static_cast<std::ptrdiff_t>(threads));
  block.barrier_of = &barrier;
  block.barrier = [](void* of) { static_cast<std::barrier<>*>(of)->arrive_and_wait(); };
  std::vector<std::thread> crew;
  for (uint32_t t = 0; t < threads; ++t)
    crew.emplace_back([&, t] {
      Block mine = block;
      mine.thread = t;
      execute(mine, node, first, count, environment, &fault);
    });
  for (std::thread& thread : crew) thread.join();
  return fault;
}

}  // namespace trek::device
