// The engines of this build, by name. An engine that cannot run on this machine is listed with the reason.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/engine.h"

namespace trek {

std::vector<EngineStatus> engines();

// The engine named `name`; null where there is none or it cannot run here, and then `why` says so and
// names those that can.
std::unique_ptr<Engine> make_engine(std::string_view name, std::string& why);

}  // namespace trek
