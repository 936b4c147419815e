#include "emulator/measure/report.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>

namespace trek::measure {
namespace {

using Json = nlohmann::ordered_json;

std::string system_name() {
  utsname names{};
  if (uname(&names) != 0) return "unknown";
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

// What tools/package wrote beside bin/.
std::string revision_of_package() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  std::ifstream file(program.parent_path().parent_path() / "REVISION");
  std::string line;
  std::getline(file, line);
  return line;
}

std::string revision() {
  if (const char* given = std::getenv("TREK_REVISION"); given != nullptr) return given;
  if (std::string packaged = revision_of_package(); !packaged.empty()) return packaged;
  FILE* pipe = popen("git describe --always --dirty 2>/dev/null", "r");
  if (pipe == nullptr) return "";
  char text[128] = "";
  const char* line = std::fgets(text, sizeof text, pipe);
  pclose(pipe);
  if (line == nullptr) return "";
  const std::string answer = line;
  return answer.substr(0, answer.find('\n'));
}

Json pairs(const std::vector<std::pair<std::string, std::string>>& list) {
  Json object = Json::object();
  for (const auto& [key, value] : list) object[key] = value;
  return object;
}

Json interval_json(const Interval& interval) { return Json::array({interval.low, interval.high}); }

Json estimate_json(const Estimate& estimate) {
  return {{"median", estimate.median},
          {"interval95", interval_json(estimate.interval)},
          {"samples", estimate.samples}};
}

Json figure_json(const Figure& figure) {
  Json object = {{"name", figure.name}, {"unit", figure.unit}};
  object.update(estimate_json(figure.value));
  if (figure.at_most > 0) object["at_most"] = figure.at_most;
  return object;
}

Json comparison_json(const NamedComparison& comparison) {
  const Comparison& result = comparison.result;
  Json object = {{"name", comparison.name},
                 {"ours", comparison.ours},
                 {"rival", comparison.rival},
                 {"verdict", name(result.verdict)},
                 {"ratio", estimate_json(result.ratio)},
                 {"band", interval_json(result.band)},
                 {"ours_seconds", estimate_json(result.ours)},
                 {"rival_seconds", estimate_json(result.rival)}};
  if (comparison.target > 0) object["target_ratio"] = comparison.target;
  if (!comparison.list.empty()) object["list"] = comparison.list;
  return object;
}

// Whatever bytes a command line has, a report comes out.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// A member of the report that lists results, one a line: so that two reports can be compared by eye.
void append_lines(std::string& text, const char* name, const Json& list) {
  if (list.empty()) return;
  text += fmt::format(",\n  \"{}\": [", name);
  for (size_t i = 0; i < list.size(); ++i) {
    text += (i == 0 ? "\n    " : ",\n    ") + dump(list[i], -1);
  }
  text += "\n  ]";
}

// The word as a shell would need it.
std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-+=.,:/@%") == std::string::npos;
  return plain ? word : fmt::format("'{}'", word);
}

}  // namespace

Load machine_load() {
  Load load;
  load.processors = std::max(1u, std::thread::hardware_concurrency());
  if (getloadavg(&load.running, 1) != 1) load.running = 0;
  return load;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

Setting describe_setting(const std::string& program, int argc, const char* const* argv) {
  Setting setting;
  setting.program = program;
  setting.command = program;
  for (int i = 1; i < argc; ++i) setting.command += fmt::format(" {}", quoted(argv[i]));
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  setting.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
  setting.revision = revision();
  setting.hardware = {{"cpu", processor()},
                      {"cpu_threads", std::to_string(std::thread::hardware_concurrency())},
                      {"load_before", short_number(machine_load().running)},
                      {"system", system_name()}};
  return setting;
}

std::string short_number(double value) {
  const double size = value < 0 ? -value : value;
  const int decimals = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  if (size > 0 && size < 0.01) return fmt::format("{:.3g}", value);
  return fmt::format("{:.{}f}", value, decimals);
}

std::string text(const Figure& figure) {
  return fmt::format(
      "{:<44} {:>8} {:<8} [{}, {}] n={}{}", figure.name, short_number(figure.value.median),
      figure.unit, short_number(figure.value.interval.low),
      short_number(figure.value.interval.high), figure.value.samples,
      figure.at_most > 0 ? fmt::format(", asked for at most {}", figure.at_most) : "");
}

std::string text(const NamedComparison& comparison) {
  const Comparison& result = comparison.result;
  return fmt::format("{:<44} {} ÷ {} = {:.3f} [{:.3f}, {:.3f}]  {} (A/A {:.3f} to {:.3f}){}",
                     comparison.name, comparison.rival, comparison.ours, result.ratio.median,
                     result.ratio.interval.low, result.ratio.interval.high, name(result.verdict),
                     result.band.low, result.band.high,
                     comparison.target > 0 ? fmt::format(", asked for {}", comparison.target) : "");
}

std::string to_json(const Report& report) {
  const Setting& setting = report.setting;
  const Json head = {{"program", setting.program},
                     {"command", setting.command},
                     {"date", setting.date},
                     {"revision", setting.revision},
                     {"hardware", pairs(setting.hardware)},
                     {"versions", pairs(setting.versions)}};
  Json figures = Json::array();
  for (const Figure& figure : report.figures) figures.push_back(figure_json(figure));
  Json comparisons = Json::array();
  for (const NamedComparison& each : report.comparisons)
    comparisons.push_back(comparison_json(each));
  std::string text = dump(head, 2);
  text.resize(text.size() - 2);  // without "\n}"
  append_lines(text, "figures", figures);
  append_lines(text, "comparisons", comparisons);
  append_lines(text, "notes", report.notes);
  return text + "\n}\n";
}

Status write_file(const std::string& path, const std::string& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return Error{"writing " + path, "", std::strerror(errno)};
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const int write_error = errno;
  if (std::fclose(file) != 0 || !written) {
    return Error{"writing " + path, "", std::strerror(written ? errno : write_error)};
  }
  return Done{};
}

}  // namespace trek::measure
