// A program written in a benchmark, on an engine.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/engine.h"
#include "emulator/measure/cpu_clock.h"
#include "emulator/measure/harness.h"
#include "tests/bench/bench.h"

namespace trek::bench {

class TextProgram {
 public:
  static Result<std::unique_ptr<TextProgram>> open(Engine& engine, const std::string& text,
                                                   int threads);
  // The elements of an input; they are copied.
  Status bind(std::string_view tensor, std::span<const float> values);
  Status run();
  // Of an output of f32.
  std::vector<float> read(std::string_view tensor);
  // Seconds of one run; a sample is as many as last for 30 ms.
  measure::Contender contender(std::string name);

 private:
  TextProgram() = default;
  uint32_t tensor_named(std::string_view name) const;
  isa::Module module_;
  std::unique_ptr<Program> program_;
};

// A contender that calls `work` so often that a sample lasts 30 ms; seconds are of one call.
template <class Work>
measure::Contender repeated(std::string name, Work work) {
  constexpr double kLeastSeconds = 0.03;  // so that the clock does not count
  const int calls = measure::calls_lasting(kLeastSeconds, work);
  return {std::move(name), [work, calls]() -> Result<double> {
            return measure::cpu_seconds([&] {
                     for (int i = 0; i < calls; ++i) work();
                   }) /
                   calls;
          }};
}

}  // namespace trek::bench
