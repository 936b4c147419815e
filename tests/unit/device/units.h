// Runs plans with the units of emulator/device in place of the plan's own evaluation.
#pragma once

#include <functional>

#include "tests/unit/plan/run.h"

namespace trek::device::test {

// For plan::test::Given::prepare: every task that has a unit is executed by it, in a block of `threads` real
// threads. Fails the test where a node is refused or its record is not what node.h states.
std::function<void(const plan::Plan&, plan::InterpretOptions&, int64_t&)> with_units(
    uint32_t threads = 1);

// A small device (plan/run.h) whose plans these units execute: the kernel that interprets has code for fewer forms.
plan::Device device_of_units(int processors);

// Whether these units add fast products in the dot order, as they do on a host: tensor cores have an order of their own.
bool fast_is_ordered();

}  // namespace trek::device::test
