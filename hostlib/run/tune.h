// The tiles of a run: those that are remembered for the engine's device, and with --tune those that are measured now.
#pragma once

#include <memory>
#include <optional>

#include "emulator/engine.h"
#include "hostlib/run/options.h"
#include "hostlib/tuning.h"

namespace trek::run {

struct RunTiles {
  int code = kExitDone;  // else there is nothing to run; what there is to say has been printed
  std::shared_ptr<const plan::MeasuredTiles> tiles;
  std::optional<Tuning> tuning;
};

// `load` is as the program will be loaded. Measuring ends with `stop`; what has been measured by then is kept.
RunTiles tiles_of(const Options& options, const isa::Module& module, Engine& engine,
                  const LoadOptions& load, const std::atomic<bool>& stop);

// What is remembered for `device`, if anything; says what is wrong with the file.
std::shared_ptr<const plan::MeasuredTiles> remembered_tiles(const plan::Device& device);

}  // namespace trek::run
