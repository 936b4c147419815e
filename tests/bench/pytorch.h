// PyTorch as a rival: a Python process that stays alive and does one thing at a time for us
// (pytorch_rivals.py), so that its samples and ours take turns in one session of measurement.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>
#include <sys/types.h>

#include "tests/bench/bench.h"

namespace trek::bench {

class PyTorch {
 public:
  // Starts the process; it imports what it needs while we do other things.
  PyTorch(std::string python, std::string script);
  PyTorch(const PyTorch&) = delete;
  PyTorch& operator=(const PyTorch&) = delete;
  ~PyTorch() { stop(); }

  // The answer to a request, or why there is none: its own error, no answer in time, the process's end, a
  // device that fails. After all but the first the next request has a new process, with nothing prepared.
  Result<nlohmann::json> ask(const nlohmann::json& request, int seconds = 60);
  // Counts the processes so far.
  int generation() const { return generation_; }
  // Seconds of one trip of a network in a form that is prepared, with TF32 or without.
  measure::Contender contender(std::string name, std::string network, std::string form, bool tf32);

 private:
  Status start();
  void stop();
  Result<std::string> answer_within(int seconds);

  std::string python_;
  std::string script_;
  pid_t process_ = 0;  // 0: none
  int to_ = -1;        // its standard input
  int from_ = -1;      // its standard output
  int generation_ = 0;
  std::string read_;  // of its output, behind the last answer
};

}  // namespace trek::bench
