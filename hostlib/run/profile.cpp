#include "hostlib/run/profile.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "hostlib/place.h"
#include "hostlib/run/units.h"

namespace trek::run {
namespace {

constexpr size_t kShownInstructions = 40;
constexpr size_t kTextWidth = 52;

struct Row {
  std::string where;
  std::string what;
  uint64_t calls = 0;
  uint64_t nanoseconds = 0;
  uint64_t flops = 0;
  uint64_t bytes = 0;

  void add(const InstructionCounters& counters) {
    calls += counters.calls;
    nanoseconds += counters.nanoseconds;
    flops += counters.flops;
    bytes += counters.bytes;
  }
};

std::string shortened(std::string text) {
  if (text.size() <= kTextWidth) return text;
  text.resize(kTextWidth - 3);
  return text + "...";
}

// "31", with the file's name where the program has several; "main:4" where lines are not known.
std::string where_text(const isa::Module& module, const Place& place) {
  const isa::Location location = location_at(module, place);
  if (location.line == 0)
    return fmt::format("{}:{}", function_text(module, place), place.instruction);
  if (module.debug.files.size() <= 1) return fmt::format("{}", location.line);
  const std::string_view file = module.debug.files[location.file];
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), location.line);
}

void slowest_first(std::vector<Row>& rows) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(b.nanoseconds, a.where, a.what) < std::tie(a.nanoseconds, b.where, b.what);
  });
}

std::vector<Row> by_instruction(const isa::Module& module, const Counters& counters) {
  std::vector<Row> rows;
  for (const InstructionCounters& counted : counters.per_instruction) {
    rows.push_back(
        {where_text(module, counted.place), shortened(written_text(module, counted.place))});
    rows.back().add(counted);
  }
  slowest_first(rows);
  return rows;
}

std::vector<Row> by_mnemonic(const isa::Module& module, const Counters& counters) {
  std::map<std::string_view, Row> rows;
  for (const InstructionCounters& counted : counters.per_instruction) {
    const isa::OpInfo& op = isa::info(instruction_at(module, counted.place).opcode);
    Row& row = rows[op.mnemonic];
    row.where = isa::name(op.family);
    row.what = op.mnemonic;
    row.add(counted);
  }
  std::vector<Row> sorted;
  sorted.reserve(rows.size());
  for (auto& [mnemonic, row] : rows) sorted.push_back(std::move(row));
  slowest_first(sorted);
  return sorted;
}

// Rows under a heading, columns as wide as their widest entry.
std::string table(std::string_view where, std::string_view what, const std::vector<Row>& rows,
                  size_t shown, uint64_t total) {
  size_t where_width = where.size();
  size_t what_width = what.size();
  shown = std::min(shown, rows.size());
  for (size_t i = 0; i < shown; ++i) {
    where_width = std::max(where_width, rows[i].where.size());
    what_width = std::max(what_width, rows[i].what.size());
  }
  constexpr std::string_view kForm = "  {:>{}}  {:<{}}  {:>11}  {:>8}  {:>7}  {:>13}  {:>10}\n";
  std::string text = fmt::format(kForm, where, where_width, what, what_width, "calls", "time",
                                 "share", "FLOP/s", "bytes/s");
  for (size_t i = 0; i < shown; ++i) {
    const Row& row = rows[i];
    text += fmt::format(kForm, row.where, where_width, row.what, what_width, count_text(row.calls),
                        time_text(row.nanoseconds), percent_text(row.nanoseconds, total),
                        rate_text(row.flops, row.nanoseconds, "FLOP/s"),
                        rate_text(row.bytes, row.nanoseconds, "B/s"));
  }
  if (shown < rows.size()) {
    Row rest;
    for (size_t i = shown; i < rows.size(); ++i) rest.nanoseconds += rows[i].nanoseconds;
    text += fmt::format("  and {} more, {} together\n", rows.size() - shown,
                        percent_text(rest.nanoseconds, total));
  }
  return text;
}

// "  loaded in 210 ms: driver 101 ms, context 83 ms, ..."; nothing where the engine does not say.
std::string load_text(const std::vector<LoadPhase>& phases) {
  if (phases.empty()) return "";
  uint64_t sum = 0;
  std::string parts;
  for (const LoadPhase& phase : phases) {
    sum += phase.nanoseconds;
    parts +=
        fmt::format("{}{} {}", parts.empty() ? "" : ", ", phase.name, time_text(phase.nanoseconds));
  }
  return fmt::format("  loaded in {}: {}\n", time_text(sum), parts);
}

std::string stage_text(std::string_view how, const Stage& stage) {
  if (stage.trips == 0)
    return fmt::format("  {}: {} runs in {}\n", how, count_text(stage.runs),
                       time_text(stage.nanoseconds));
  return fmt::format("  {}: {} trips in {}, {} each\n", how, count_text(stage.trips),
                     time_text(stage.nanoseconds), time_text(stage.nanoseconds / stage.trips));
}

// From how many trips on compiling is worth what it takes, where both ways have been measured.
std::string break_even_text(const CompileCounters& counters) {
  const Stage& before = counters.interpreted;
  const Stage& after = counters.compiled;
  if (before.trips == 0 || after.trips == 0) return "";
  const double saved = static_cast<double>(before.nanoseconds) / static_cast<double>(before.trips) -
                       static_cast<double>(after.nanoseconds) / static_cast<double>(after.trips);
  if (saved <= 0) return "  compiling is not worth it: its trips take no less time\n";
  return fmt::format(
      "  compiling is worth it from {} trips on\n",
      count_text(static_cast<uint64_t>(static_cast<double>(counters.nanoseconds) / saved) + 1));
}

// What compiling took beside what it gave; nothing of an engine that does not.
std::string compiling_text(const CompileCounters& counters) {
  if (!counters.compiles) return "";
  std::string text;
  if (!counters.failure.empty())
    text += fmt::format("  not compiled: {}", counters.failure);
  else if (counters.nanoseconds == 0)
    text += "  not compiled before it ended";
  else
    text += fmt::format("  compiled in {}{}", time_text(counters.nanoseconds),
                        counters.begins_without ? " meanwhile" : "");
  text += fmt::format("; the first run was over after {}\n", time_text(counters.first_run));
  if (counters.interpreted.nanoseconds > 0) text += stage_text("interpreted", counters.interpreted);
  if (counters.compiled.nanoseconds > 0) text += stage_text("compiled", counters.compiled);
  return text + break_even_text(counters);
}

}  // namespace

std::string profile_text(const isa::Module& module, const Counters& counters) {
  const std::vector<Row> instructions = by_instruction(module, counters);
  const std::vector<Row> mnemonics = by_mnemonic(module, counters);
  Row all;
  for (const InstructionCounters& counted : counters.per_instruction) all.add(counted);
  const uint64_t total = std::max(counters.nanoseconds, all.nanoseconds);
  std::string text = "Profile by instruction\n";
  text += table("line", "instruction", instructions, kShownInstructions, total);
  text += "\nWhere the time went\n";
  text += table("family", "mnemonic", mnemonics, mnemonics.size(), total);
  const uint64_t rest = total - all.nanoseconds;
  text += fmt::format("\n  {} in all: {} instructions, {}, {}; {} ({}) between instructions\n",
                      time_text(total), count_text(counters.instructions),
                      rate_text(all.flops, total, "FLOP/s"), rate_text(all.bytes, total, "B/s"),
                      time_text(rest), percent_text(rest, total));
  text += fmt::format("  memory at most {}\n", bytes_text(counters.memory_bytes));
  text += load_text(counters.load);
  if (counters.tiles.measured > 0)
    text += fmt::format("  tiles: tuned, {} of {} products as measured\n", counters.tiles.measured,
                        counters.tiles.products);
  text += compiling_text(counters.compiling);
  return text;
}

}  // namespace trek::run
