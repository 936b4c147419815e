// Tuning: the candidates for the tiles of a program's products, measured on the device of an engine.
//
// Every different product of a module (plan::ProductKey) becomes a small program: for each candidate a loop of its own
// around the product with these tiles, on the same operands. So there is one load, one set of tensors and, where an
// engine compiles, one compilation for all candidates, and they differ in nothing but their tiles. Where a product has
// a part of the processors in the module, as many of it stand beside each other. Candidates are timed in turn, round
// after round (emulator/measure). Only those that the cost model does not think hopeless are tried.
//
// A compiled program for a GPU has a frame with code for all that its products do, and what takes a few microseconds feels
// that: so there nothing changes before the fastest have been measured once more, each in a program of its own.
//
// The fastest is taken where it is faster beyond chance than what would be taken without it, so noise changes nothing.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "emulator/engine.h"
#include "emulator/measure/harness.h"
#include "emulator/plan/measured.h"

namespace trek {

struct TuneOptions {
  LoadOptions load;  // as the module will be; its tiles are what would be taken without tuning
  measure::Rounds rounds = {1, 9, 1.5};
  double sample_seconds = 0.004;
  size_t candidates = 12;  // tried of a product, at most
  const std::atomic<bool>* stop = nullptr;
};

struct TriedTiles {
  plan::MatrixTiles tiles;
  bool is_divided =
      false;  // the last rows have tiles of their own, as the plan has it that measures nothing
  double cycles = 0;          // the cost model's estimate; of what is divided none
  measure::Estimate seconds;  // until all that stand beside each other are done
  measure::Estimate alone;    // the same in a program of its own; no samples: not measured so
  const measure::Estimate& time() const { return alone.samples > 0 ? alone : seconds; }
};

struct TunedProduct {
  plan::ProductKey product;
  std::vector<Place> places;  // of the module's instructions that are this product
  size_t candidates = 0;
  std::vector<TriedTiles> tried;  // in the order of the cost model, whose choice is the first
  size_t fastest = 0;             // of `tried`
  size_t before = 0;
  size_t now = 0;
  measure::Estimate gain = measure::exactly(1);  // time before ÷ time now
  std::string failure;                           // why nothing was measured

  bool is_measured() const { return failure.empty(); }
};

struct Tuning {
  plan::Device device;
  std::vector<TunedProduct> products;
  size_t left_out = 0;  // products that were not come to before the stop
};

// Measures all products of `main`, and tells of each as soon as it has been. Not for the engine `auto`, which goes on
// in another way while it is timed; what `jit` finds is for both. Fails where the engine cuts nothing into
// tiles, or the module cannot be linked for its device.
isa::Result<Tuning> tune(const isa::Module& module, Engine& engine, const TuneOptions& options,
                         const std::function<void(const Tuning&, const TunedProduct&)>& told);

}  // namespace trek
