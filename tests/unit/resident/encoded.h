// A program as the resident emulator reads it, with the descriptors of its nodes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "emulator/device/node.h"
#include "emulator/resident/encode.h"
#include "tests/unit/plan/run.h"

namespace trek::resident::test {

struct Encoded {
  plan::Plan plan;
  Image image;
  std::vector<const device::Node*> nodes;  // of the plan; null where no unit executes it
};

inline Encoded encoded(const std::string& program, const plan::Device& device, bool fast = false) {
  const isa::Module module = plan::test::assembled(program);
  plan::Plan plan =
      fast ? plan::test::linked_fast(module, device) : plan::test::linked(module, device);
  auto image = encode(plan);
  REQUIRE(image);
  Encoded all = {std::move(plan), image.take(), {}};
  all.nodes.resize(all.plan.nodes.size());
  for (const Record& record : all.image.records)
    if (is_of_unit(record.kind)) all.nodes[record.node] = &node_of(all.image, record);
  return all;
}

// Small devices whose thin products have words, in compiled code or where they are interpreted.
inline plan::Device device_with_words(int processors, bool interprets) {
  plan::Device device = plan::test::small_device(processors);
  device.chunk = 1024;
  device.interprets = interprets;
  device.has_tags = true;
  return device;
}

inline const Wait& wait_of(const Encoded& all, const Record& record, uint32_t i) {
  return i < kInlineWaits ? record.wait[i] : all.image.waits[record.more_waits + i - kInlineWaits];
}

}  // namespace trek::resident::test
