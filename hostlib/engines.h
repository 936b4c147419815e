// The engines of this build, by name. An engine that cannot run on this machine is listed with the reason.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/engine.h"

namespace trek {

std::vector<EngineStatus> engines();

// The engine that programs run on where none is named: the best that this machine has.
struct DefaultEngine {
  std::string_view name;
  std::string_view reason;
};
DefaultEngine default_engine();

// The engine named `name`, or the default where that is empty; null where there is none or it cannot run here, and then `why` says so and
// names those that can.
std::unique_ptr<Engine> make_engine(std::string_view name, std::string& why);

}  // namespace trek
