// Which thin products are executed as GEMV on a device that interprets (gemv.h), and what their tasks are told. Host only.
#pragma once

#include <optional>

#include "emulator/device/gemv.h"

namespace trek::device {

// `node` is the descriptor of a node of a plan under fast numerics. What is in words, packed and left to the next task is not
// said yet. Nothing where it is no GEMV. `stands`: all of its columns that it does not have in words is never written.
std::optional<Gemv> gemv_of(const Node& node, bool stands = false);

}  // namespace trek::device
