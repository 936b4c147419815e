// trek-accuracy: how far the functions of isa/semantics are from the exact value, over every
// binary32 number and samples of binary64, and whether they rise and fall where they should.
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/accuracy/measure.h"
#include "tests/accuracy/special_values.h"

namespace {

using trek::accuracy::Function;
using trek::accuracy::Plan;
using trek::accuracy::Result;

void print_row(const Result& r) {
  fmt::print("{:<15} {:<4} {:>11} {:>9.4f} {:>6} {:<37} {:<8} {:>8} {:>9.1e}  {}\n", r.function,
             r.type, r.inputs, r.max_ulp, r.bound, r.at,
             !r.judged ? "-" : (r.monotone ? "yes" : "NO"), r.exact_checks, r.filter_error,
             r.holds() ? "" : "BROKEN " + r.broken_at);
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const Result& r) {
  nlohmann::ordered_json row;
  row["function"] = r.function;
  row["type"] = r.type;
  row["inputs"] = r.inputs;
  row["max_ulp"] = r.max_ulp;
  row["at"] = r.at;
  row["monotone"] = r.judged ? nlohmann::ordered_json(r.monotone) : nlohmann::ordered_json(nullptr);
  row["bound"] = r.bound;
  row["scale"] = r.scale;
  return row;
}

template <typename T>
void run(const std::set<std::string>& names, const Plan& plan, std::vector<Result>& results) {
  for (const Function<T>& function : trek::accuracy::functions<T>()) {
    if (!names.empty() && !names.contains(function.name)) continue;
    results.push_back(trek::accuracy::measure(function, plan));
    print_row(results.back());
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures the accuracy of Trek's floating-point functions."};
  std::set<std::string> names;
  std::set<std::string> types;
  std::string json;
  Plan plan{1'000'000, 1, 2};
  app.add_option("--function", names, "A function to measure, e.g. exp or gelu.grad; default all");
  app.add_option("--type", types, "f32 or f64; default both")->check(CLI::IsMember({"f32", "f64"}));
  app.add_option("--samples", plan.samples, "Inputs where not all can be tried");
  app.add_option("--stride", plan.stride, "Every N-th run of 16 neighbours of binary32; 1: all")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", plan.threads, "Worker threads")->check(CLI::PositiveNumber);
  app.add_option("--json", json, "Write the figures to this file");
  CLI11_PARSE(app, argc, argv);

  fmt::print("{:<15} {:<4} {:>11} {:>9} {:>6} {:<37} {:<8} {:>8} {:>9}\n", "function", "type",
             "inputs", "max ulp", "bound", "at", "monotone", "by mpfr", "filter");
  std::vector<Result> results;
  if (types.empty() || types.contains("f32")) run<float>(names, plan, results);
  if (types.empty() || types.contains("f64")) run<double>(names, plan, results);

  const int wrong = trek::accuracy::check_special_values();
  if (wrong != 0) fmt::print(stderr, "trek-accuracy: {} special values are wrong\n", wrong);
  bool holds = !results.empty() && wrong == 0;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Result& r : results) {
    holds = holds && r.holds();
    rows.push_back(to_json(r));
  }
  if (!json.empty()) {
    std::ofstream file(json);
    file << "[\n";
    for (std::size_t i = 0; i < rows.size(); ++i) {
      file << "  " << rows[i].dump() << (i + 1 < rows.size() ? ",\n" : "\n");
    }
    file << "]\n";
    if (!file) {
      fmt::print(stderr, "trek-accuracy: cannot write {}\n", json);
      return 2;
    }
  }
  if (results.empty()) fmt::print(stderr, "trek-accuracy: no such function\n");
  return holds ? 0 : 1;
}
