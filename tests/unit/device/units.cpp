#include "tests/unit/device/units.h"

#include <cstring>
#include <memory>

#include <catch2/catch.hpp>

#include "emulator/device/describe.h"
#include "emulator/device/host.h"

namespace trek::device::test {
namespace {

struct alignas(16) Line {
  std::byte bytes[16];
};
// A descriptor where it is aligned, as an engine would keep it.
struct Kept {
  std::vector<Line> record;
  std::vector<uint32_t> counter_regions;
  const Node& node() const { return *reinterpret_cast<const Node*>(record.data()); }
};

Kept keep(const Described& described) {
  Kept kept;
  kept.counter_regions = described.counter_regions;
  REQUIRE(described.bytes.size() % sizeof(Line) == 0);
  kept.record.resize(described.bytes.size() / sizeof(Line));
  std::memcpy(kept.record.data(), described.bytes.data(), described.bytes.size());
  REQUIRE(kept.node().bytes == described.bytes.size());
  return kept;
}

}  // namespace

bool fast_is_ordered() { return true; }

plan::Device device_of_units(int processors) { return plan::test::small_device(processors); }

std::function<void(const plan::Plan&, plan::InterpretOptions&, int64_t&)> with_units(
    uint32_t threads) {
  return [threads](const plan::Plan& plan, plan::InterpretOptions& options, int64_t& arena_bytes) {
    auto nodes = std::make_shared<std::vector<Kept>>();
    arena_bytes = (arena_bytes + 255) / 256 * 256;
    for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
      Described described = describe(plan, n);
      INFO(isa::info(plan.nodes[n].opcode).mnemonic);
      REQUIRE(described.refusal == "");
      described.set_scratch(arena_bytes);
      arena_bytes += described.scratch_bytes;
      nodes->push_back(keep(described));
    }
    const uint64_t seed = options.random_seed;
    options.execute =
        [nodes, threads, seed, &plan](
            uint32_t index, std::span<std::byte> arena,
            const plan::InterpretOptions::Counter& counter) -> std::optional<plan::Executed> {
      const plan::Task& task = plan.tasks[index];
      const Kept& kept = (*nodes)[task.node];
      if (static_cast<Kind>(kept.node().kind) == Kind::engine) return std::nullopt;
      std::vector<int64_t> counters;
      for (uint32_t region : kept.counter_regions) counters.push_back(counter(region));
      const Environment environment{arena.data(), seed, counters.data()};
      const Fault fault =
          execute_on_host(kept.node(), task.first, task.count, environment, threads);
      if (fault.code == 0) return plan::Executed{};
      return plan::Executed{static_cast<isa::TrapCode>(fault.code), fault.element};
    };
  };
}

}  // namespace trek::device::test
