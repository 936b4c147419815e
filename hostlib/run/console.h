// What a run shows while it is under way.
//
// On a terminal: a progress bar with the latest emitted values, and above it one line per trip of the
// outermost loop with the values of that trip (where there are few enough trips to read). Elsewhere:
// one line `name = value` per emitted value, as it comes. Quiet: nothing.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/engine.h"

namespace trek::run {

class Console {
 public:
  enum class Mode : uint8_t { terminal, lines, quiet };
  // Terminal where stdout and stderr both are one.
  static Mode mode_of(bool quiet);

  explicit Console(Mode mode);

  void emitted(const Emitted& value);
  // As RunOptions::progress.
  void progress(int level, uint64_t done, uint64_t trips);
  // Takes the bar away and shows what it still held.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  struct Level {
    uint64_t done = 0;
    uint64_t trips = 0;
    bool active() const { return done < trips; }
  };
  struct Latest {
    std::string name;
    std::string text;
    bool shown = false;  // printed since it came
  };

  bool lists_trips() const;
  void print_latest(const std::string& label);
  void draw();
  void clear_bar();
  std::string bar_text(size_t width);

  Mode mode_;
  std::array<Level, 2> levels_;
  double fraction_ = 0;         // of the outermost loop; never goes back within it
  std::vector<Latest> latest_;  // in the order of first appearance
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_;
  bool bar_visible_ = false;
};

}  // namespace trek::run
