// The units on a host: the same source as on the device, for tests and for looking at one task.
#pragma once

#include "emulator/device/block.h"
#include "emulator/device/node.h"

namespace trek::device {

// execute() with a block of `threads` real threads (1: this one), 1 ... kMaxBlockThreads. `node` is a
// record of describe(), 16-byte aligned.
Fault execute_on_host(const Node& node, int64_t first, int64_t count,
                      const Environment& environment, uint32_t threads = 1);

}  // namespace trek::device
