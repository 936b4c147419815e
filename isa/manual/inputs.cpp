#include "isa/manual/inputs.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trek::manual {
namespace {

namespace fs = std::filesystem;
using isa::ErrorCode;
using isa::Problem;
using isa::Problems;

Problem problem(ErrorCode code, std::string message) {
  Problem found;
  found.code = code;
  found.message = std::move(message);
  return found;
}

void read_examples(const std::string& folder, Inputs& inputs, Problems& problems) {
  Problems missing;
  for (const isa::OpInfo& op : isa::all_ops()) {
    const std::string path = fmt::format("{}/{}.trek", folder, op.mnemonic);
    isa::Result<std::string> text = read_file(path);
    if (text) {
      inputs.examples.emplace(op.mnemonic, text.take());
    } else {
      missing.push_back(text.problems().front());
      missing.back().help =
          fmt::format("'{}' has no example, and every instruction needs one", op.mnemonic);
    }
  }
  if (inputs.examples.empty())
    problems.push_back(
        problem(ErrorCode::FileUnreadable, fmt::format("{} is not a folder of examples", folder)));
  else
    problems.insert(problems.end(), missing.begin(), missing.end());
}

// A program that is no instruction's example would be shown nowhere and is most likely misnamed.
void check_names(const std::string& folder, Problems& problems) {
  std::set<std::string> names;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed))
    if (entry.path().extension() == ".trek") names.insert(entry.path().stem().string());
  std::vector<std::string_view> mnemonics;
  for (const isa::OpInfo& op : isa::all_ops()) mnemonics.push_back(op.mnemonic);
  for (const std::string& name : names) {
    if (isa::find_op(name) != nullptr) continue;
    problems.push_back(
        problem(ErrorCode::UnknownInstruction,
                fmt::format("{}/{}.trek is the example of no instruction", folder, name)));
    const std::string near = isa::nearest(name, mnemonics);
    if (!near.empty()) problems.back().help = fmt::format("did you mean '{}.trek'?", near);
  }
}

Accuracy accuracy_row(const nlohmann::json& row) {
  Accuracy accuracy;
  accuracy.function = row.at("function").get<std::string>();
  accuracy.type = row.at("type").get<std::string>();
  accuracy.inputs = row.at("inputs").get<uint64_t>();
  accuracy.max_ulp = row.at("max_ulp").get<double>();
  accuracy.at = row.at("at").get<std::string>();
  accuracy.judged = !row.at("monotone").is_null();
  accuracy.monotone = accuracy.judged && row.at("monotone").get<bool>();
  accuracy.scale = row.at("scale").get<double>();
  return accuracy;
}

void read_accuracy(const std::string& path, Inputs& inputs, Problems& problems) {
  const isa::Result<std::string> text = read_file(path);
  if (!text) {
    problems.push_back(text.problems().front());
    problems.back().help = "trek-accuracy --json FILE writes it";
    return;
  }
  try {
    for (const nlohmann::json& row : nlohmann::json::parse(*text))
      inputs.accuracy.push_back(accuracy_row(row));
  } catch (const nlohmann::json::exception& wrong) {
    problems.push_back(
        problem(ErrorCode::DataFormat,
                fmt::format("{} is not what trek-accuracy --json writes: {}", path, wrong.what())));
  }
}

}  // namespace

isa::Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  // An empty file sets failbit on the string stream, which is not a failure to read.
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || text.bad())
    return problem(ErrorCode::FileUnreadable, fmt::format("{} cannot be read", path));
  return std::move(text).str();
}

isa::Result<Inputs> read_inputs(const std::string& examples, const std::string& accuracy) {
  Inputs inputs;
  Problems problems;
  read_examples(examples, inputs, problems);
  if (!inputs.examples.empty()) check_names(examples, problems);
  read_accuracy(accuracy, inputs, problems);
  if (!problems.empty()) return problems;
  return inputs;
}

}  // namespace trek::manual
