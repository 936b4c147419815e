// What a device can do at most, measured before anything is compared with it: copying, adding, matrix
// products by type, a barrier across the grid, a launch, a node of a graph. A figure of an engine means
// something only beside these, from the same session.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "emulator/driver/context.h"
#include "emulator/measure/report.h"

namespace trek::measure {

struct CeilingOptions {
  Rounds rounds;
  bool quick = false;  // small sizes: a check that all of it works, not a measurement
  std::string only;    // the name of one group, or "" for all
  // Told each figure as it is ready.
  std::function<void(const Figure&)> on_figure;
};

struct Ceilings {
  std::vector<Figure> figures;
  std::vector<std::pair<std::string, std::string>> versions;  // of the libraries used
  std::vector<std::string> notes;                             // what could not be measured, and why
};

// "copy", "add", "matmul", "barrier", "launch": what `only` may be.
std::vector<std::string> ceiling_groups();

// Every result of the measured work is checked; a wrong one is an error.
Result<Ceilings> measure_ceilings(const driver::Context& context, const CeilingOptions& options);

}  // namespace trek::measure
