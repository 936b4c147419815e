// The GPU-resident emulator: one persistent kernel executes whole programs.
#pragma once

#include <memory>
#include <string>

#include "emulator/engine.h"

namespace trek {

// Whether there is a GPU that it runs on, and which, or what is missing.
EngineStatus resident_engine_status();

// On the first device, or number $TREK_DEVICE. Null where it does not run there, and then `why` says so.
std::unique_ptr<Engine> make_resident_engine(std::string& why);

// `resident-graph`: the same tasks, a launch for each node, in a CUDA graph with programmatic launches. For comparison;
// it refuses programs whose loops decide on the device, that emit, or that read streams.
EngineStatus resident_graph_engine_status();
// What is to be said of such an engine, of which `of` runs the same code in one kernel.
EngineStatus graph_engine_status(EngineStatus of, std::string name);
std::unique_ptr<Engine> make_resident_graph_engine(std::string& why);

// The same queues, units and mailbox executed by CPU threads: slow, always there.
EngineStatus resident_host_engine_status();
std::unique_ptr<Engine> make_resident_host_engine();

}  // namespace trek
