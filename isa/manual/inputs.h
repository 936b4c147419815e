// What the manual shows besides the table: an example per instruction, and measured accuracies.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "isa/ops.h"
#include "isa/result.h"

namespace trek::manual {

// One row of accuracy.json (tests/accuracy): a function's error against the exact value.
struct Accuracy {
  std::string function;
  std::string type;       // "f32" or "f64"
  uint64_t inputs = 0;    // how many were measured
  double max_ulp = 0;     // the greatest error found, in ulp
  std::string at;         // the input that gave it, as bits
  bool judged = false;    // whether the function rises or falls throughout
  bool monotone = false;  // and whether it was found to
  double scale = 0;       // where not 0, the error is in ulp of max(|y|, scale)
};

struct Inputs {
  std::map<std::string, std::string, std::less<>> examples;  // text by mnemonic; one for each
  std::vector<Accuracy> accuracy;
};

// Reads EXAMPLES/<mnemonic>.trek for every instruction, and the accuracy file. Problems: a file that is
// missing or cannot be read, an example of no instruction, an accuracy file of another form.
isa::Result<Inputs> read_inputs(const std::string& examples, const std::string& accuracy);

// The whole of a file, or the problem with it.
isa::Result<std::string> read_file(const std::string& path);

}  // namespace trek::manual
