// Results as people and programs read them: figures and comparisons with everything that is needed to
// judge them and to repeat them (hardware, driver, versions, date, command, revision).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "emulator/measure/harness.h"

namespace trek::measure {

// One measured quantity.
struct Figure {
  std::string name;    // "copy by kernel, 1024 MiB"
  std::string unit;    // "GB/s"
  Estimate value;      // in that unit
  double at_most = 0;  // what is asked for, in that unit; 0: nothing
};

struct NamedComparison {
  std::string name;   // "matmul f32 1024x1024x1024, 1 thread"
  std::string ours;   // "ref strict"
  std::string rival;  // "oneDNN 2.6.3"
  Comparison result;
  double target =
      0;  // the ratio rival ÷ ours that is asked for, of a list its geometric mean; 0: none
  // What it belongs to, where many are judged together: "GEMM bf16, random shapes"; "": it stands alone.
  std::string list = {};
};

// What was measured where, with what.
struct Setting {
  std::string program;   // "trek-measure"
  std::string command;   // the command line
  std::string date;      // UTC, "2026-11-21T12:00:00Z"
  std::string revision;  // of the source tree, "" where not known
  std::vector<std::pair<std::string, std::string>> hardware;  // "cpu" -> "..."
  std::vector<std::pair<std::string, std::string>> versions;  // "cublas" -> "13.1.0"
};

// This computer's processor by its name, from /proc/cpuinfo; "unknown" where that does not say.
std::string processor();

// Date, command, processor and operating system; the revision from $TREK_REVISION, else of the package that the
// program is in, else from git where the current folder is a checkout.
Setting describe_setting(const std::string& program, int argc, const char* const* argv);

// Programs that ran here in the last minute, on average, beside how many processors there are: where
// the first is not far below the second, times are of the neighbours too.
struct Load {
  double running = 0;
  unsigned processors = 1;
  bool busy() const { return running > 0.5 * processors; }
};
Load machine_load();

struct Report {
  Setting setting;
  std::vector<Figure> figures;
  std::vector<NamedComparison> comparisons;
  std::vector<std::string> notes;  // what could not be measured, and why
};

// "4.2", "0.94", "788": four significant digits at most.
std::string short_number(double value);
// One line each, for a terminal.
std::string text(const Figure& figure);
std::string text(const NamedComparison& comparison);
// The whole report.
std::string to_json(const Report& report);

// Writes the file or says why it could not be written completely.
Status write_file(const std::string& path, const std::string& bytes);

}  // namespace trek::measure
