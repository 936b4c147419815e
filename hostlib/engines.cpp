#include "hostlib/engines.h"

#include <array>

#include <fmt/format.h>

#include "emulator/ref/ref_engine.h"
#include "emulator/resident/resident_engine.h"

namespace trek {
namespace {

struct Registered {
  EngineStatus (*status)();
  std::unique_ptr<Engine> (*make)();
};
constexpr std::array<Registered, 3> kEngines = {{
    {ref_engine_status, make_ref_engine},
    {resident_engine_status, make_resident_engine},
    {resident_host_engine_status, make_resident_host_engine},
}};

}  // namespace

std::vector<EngineStatus> engines() {
  std::vector<EngineStatus> list;
  list.reserve(kEngines.size());
  for (const Registered& engine : kEngines) list.push_back(engine.status());
  return list;
}

std::unique_ptr<Engine> make_engine(std::string_view name, std::string& why) {
  std::string available;
  for (const Registered& engine : kEngines) {
    const EngineStatus status = engine.status();
    if (status.name == name && status.available) return engine.make();
    if (status.name == name)
      why = fmt::format("the engine '{}' cannot run here: {}", name, status.detail);
    if (status.available) available += (available.empty() ? "" : ", ") + status.name;
  }
  if (why.empty()) why = fmt::format("no engine is named '{}'", name);
  why += fmt::format("; available here: {}", available.empty() ? "none" : available);
  return nullptr;
}

}  // namespace trek
