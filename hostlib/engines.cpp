#include "hostlib/engines.h"

#include <array>

#include <fmt/format.h>

#include "emulator/jit/jit_engine.h"
#include "emulator/ref/ref_engine.h"
#include "emulator/resident/resident_engine.h"

namespace trek {
namespace {

struct Registered {
  std::string_view name;
  EngineStatus (*status)();
  std::unique_ptr<Engine> (*make)(std::string& why);  // null where it cannot run here
};

std::unique_ptr<Engine> make_ref(std::string& why) {
  const EngineStatus status = ref_engine_status();
  if (status.available) return make_ref_engine();
  why = status.detail;
  return nullptr;
}

std::unique_ptr<Engine> make_resident_host(std::string&) { return make_resident_host_engine(); }

constexpr std::array<Registered, 7> kEngines = {{
    {"ref", ref_engine_status, make_ref},
    {"jit", jit_engine_status, make_jit_engine},
    {"auto", auto_engine_status, make_auto_engine},
    {"resident", resident_engine_status, make_resident_engine},
    {"jit-graph", jit_graph_engine_status, make_jit_graph_engine},
    {"resident-graph", resident_graph_engine_status, make_resident_graph_engine},
    {"resident-host", resident_host_engine_status, make_resident_host},
}};

}  // namespace

std::vector<EngineStatus> engines() {
  std::vector<EngineStatus> list;
  list.reserve(kEngines.size());
  for (const Registered& engine : kEngines) list.push_back(engine.status());
  return list;
}

// Only as many are asked as need be: each takes a while to answer.
DefaultEngine default_engine() {
  const EngineStatus jit = jit_engine_status();
  if (jit.available && jit.on_gpu)
    return {"auto", "there is a GPU, and code for it can wait until it is ready"};
  if (resident_engine_status().available) return {"resident", "there is a GPU, and no JIT for it"};
  if (jit.available) return {"jit", "there is no GPU, and the JIT makes code for this computer"};
  return {"ref", "there is neither a GPU nor a JIT"};
}

std::unique_ptr<Engine> make_engine(std::string_view name, std::string& why) {
  if (name.empty()) name = default_engine().name;
  // Others are asked only where this one is not to be had: a GPU takes a while to answer.
  why = fmt::format("no engine is named '{}'", name);
  for (const Registered& engine : kEngines) {
    if (engine.name != name) continue;
    if (auto made = engine.make(why)) return made;
    why = fmt::format("the engine '{}' cannot run here: {}", name, why);
  }
  std::string available;
  for (const EngineStatus& status : engines())
    if (status.available) available += (available.empty() ? "" : ", ") + status.name;
  why += fmt::format("; available here: {}", available.empty() ? "none" : available);
  return nullptr;
}

}  // namespace trek
