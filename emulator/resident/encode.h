// A plan becomes an image: queues of records, waits, and descriptors of nodes. See image.h.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "emulator/device/describe.h"
#include "emulator/plan/plan.h"
#include "emulator/resident/image.h"
#include "isa/result.h"

namespace trek::resident {

struct StreamInfo {
  uint32_t tensor = 0;  // index into Module::tensors
  uint64_t bytes = 0;   // of a block
};

// A tensor map that units find in the arena at `at`.
struct PlacedMap {
  uint64_t at = 0;
  device::TensorMap map;
};

struct Image {
  std::vector<Record> records;
  std::vector<uint32_t> queues;  // per processor: its first record
  std::vector<Wait> waits;       // beyond the four in a record
  std::vector<std::byte> descriptors;
  std::vector<StreamInfo> streams;
  std::vector<PlacedMap> maps;
  std::vector<uint64_t> meetings;  // where blocks meet: words that a launch finds zeroed
  uint32_t counters = 0;
  uint32_t regions = 0;
  uint32_t processors = 0;
  uint32_t giver = 0;  // of credit: the processor with tasks in most loops, then with most tasks
  uint64_t arena_bytes = 0;  // the plan's, and behind it what units need besides
  uint64_t tags_at = 0;      // the last of that: words that a launch finds zeroed (tags.h)
  uint64_t tags_bytes = 0;
  bool for_chains = false;  // it is for the kernel for chains of small products
};

// The descriptor of the node that a record of a unit is a tile of, before code is made for it.
const device::Node& node_of(const Image& image, const Record& record);

// Refuses, by name, a plan that is beyond the records' limits (regions, nodes, waits of one task). `for_code`: of a plan that is
// interpreted until code has been made for it (compilation.h), what that code goes on with. Words lie where the kernel had them.
isa::Result<Image> encode(const plan::Plan& plan, bool for_code = false);

}  // namespace trek::resident
