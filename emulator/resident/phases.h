// Where the time of a load goes: Counters::load, phase after phase.
#pragma once

#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/engine.h"

namespace trek::resident {

class Phases {
 public:
  // Names what has been done since the last end, or since this was made; a name that came before goes on.
  void end(std::string_view name) {
    const auto now = std::chrono::steady_clock::now();
    const auto took = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - std::exchange(since_, now))
            .count());
    for (LoadPhase& phase : list_) {
      if (phase.name != name) continue;
      phase.nanoseconds += took;
      return;
    }
    list_.push_back({name, took});
  }
  // What comes next does not belong to what was before.
  void begin() { since_ = std::chrono::steady_clock::now(); }
  const std::vector<LoadPhase>& list() const { return list_; }

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::vector<LoadPhase> list_;
};

}  // namespace trek::resident
