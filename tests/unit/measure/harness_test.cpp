// How contenders take turns, and how clocks and reports behave.
#include "emulator/measure/harness.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "emulator/measure/cpu_clock.h"
#include "emulator/measure/gpu_clock.h"
#include "emulator/measure/report.h"

namespace trek::measure {
namespace {

Rounds rounds(int count, int warmup = 2) {
  Rounds result;
  result.count = count;
  result.warmup = warmup;
  return result;
}

TEST_CASE("every contender has one sample a round, in an order that changes") {
  std::string order;
  const auto contender = [&](char letter, double seconds) {
    return Contender{std::string(1, letter), [&order, letter, seconds]() -> Result<double> {
                       order += letter;
                       return seconds;
                     }};
  };
  const Contender contenders[] = {contender('a', 1), contender('b', 2), contender('c', 3)};
  const Result<std::vector<Series>> series = measure_interleaved(contenders, rounds(20));
  REQUIRE(series);
  REQUIRE(series->size() == 3);
  CHECK((*series)[1].name == "b");
  CHECK((*series)[1].seconds == std::vector<double>(20, 2.0));
  REQUIRE(order.size() == 3 * 22);
  std::set<std::string> seen;
  for (size_t i = 0; i < order.size(); i += 3) {
    std::string round = order.substr(i, 3);
    seen.insert(round);
    std::sort(round.begin(), round.end());
    CHECK(round == "abc");
  }
  CHECK(seen.size() == 6);  // all permutations come
}

TEST_CASE("warm-up rounds are run and not counted") {
  int calls = 0;
  const Contender contender = {"first is slow",
                               [&]() -> Result<double> { return calls++ == 0 ? 100.0 : 1.0; }};
  const Result<std::vector<Series>> series = measure_interleaved({&contender, 1}, rounds(6, 1));
  REQUIRE(series);
  CHECK(calls == 7);
  CHECK(series->front().seconds == std::vector<double>(6, 1.0));
}

TEST_CASE("a failing sample ends the measurement with its error") {
  int calls = 0;
  const Contender contender = {"fails", [&]() -> Result<double> {
                                 if (++calls == 4) return Error{"doing the work", "", "no more"};
                                 return 1.0;
                               }};
  const Result<std::vector<Series>> series = measure_interleaved({&contender, 1}, rounds(30));
  REQUIRE_FALSE(series);
  CHECK(series.error().text() == "doing the work: no more");
  CHECK(calls == 4);
}

TEST_CASE("a measurement that takes too long stops, but not before the least number of rounds") {
  const Contender contender = {"sleeps", []() -> Result<double> { return 1.0; }};
  Rounds hasty = rounds(1000, 0);
  hasty.seconds = 0;
  const Result<std::vector<Series>> series = measure_interleaved({&contender, 1}, hasty);
  REQUIRE(series);
  CHECK(series->front().seconds.size() == kLeastRounds);
}

TEST_CASE("comparing runs the rival twice, for the band") {
  int ours = 0;
  int rival = 0;
  const Result<Comparison> result =
      compare({"ours", [&]() -> Result<double> { return ++ours, 1.0; }},
              {"rival", [&]() -> Result<double> { return ++rival, 3.0; }}, rounds(10, 0));
  REQUIRE(result);
  CHECK(ours == 10);
  CHECK(rival == 20);
  CHECK(result->ratio.median == 3);
  CHECK(result->verdict == Verdict::faster);
}

TEST_CASE("short work is called as often as the wanted time needs") {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kWork(100);
  std::vector<Clock::time_point> ends = {Clock::now()};
  const int calls = calls_lasting(0.002, [&] {
    std::this_thread::sleep_for(kWork);
    ends.push_back(Clock::now());
  });
  // 20 calls last 2 ms or more, however busy the machine is; the guess is a fifth above, and grows by half.
  CHECK(calls >= 1);
  CHECK(calls <= 30);
  const auto first = ends.size() - 1 - static_cast<size_t>(calls);
  CHECK(ends.back() - ends[first] >= std::chrono::milliseconds(2));
}

TEST_CASE("buffers take turns until three times the cache has passed") {
  CHECK(sets_past_cache(uint64_t{1} << 30, uint64_t{60} << 20) == 2);
  CHECK(sets_past_cache(uint64_t{20} << 20, uint64_t{60} << 20) == 11);
  CHECK(sets_past_cache(1, uint64_t{60} << 20) == 4096);
  CHECK(sets_past_cache(0, 0) == 2);
}

TEST_CASE("a report holds what is needed to judge and repeat it") {
  const char* const arguments[] = {"build/bin/trek-measure", "ceilings", "--only", "a b"};
  Report report;
  report.setting = describe_setting("trek-measure", 4, arguments);
  report.setting.versions.emplace_back("cublas", "13.1.0");
  report.figures.push_back({"copy", "GB/s", {4200.5, {4100, 4300}, 30}});
  report.figures.push_back({"chain", "us", {0.75, {0.7, 0.8}, 30}, 0.5});
  report.comparisons.push_back({"matmul", "ref", "oneDNN",
                                compare(std::vector<double>(9, 1.0), std::vector<double>(9, 0.8),
                                        std::vector<double>(9, 0.8)),
                                0.7});
  report.notes.emplace_back("no cuDNN");
  CHECK(report.setting.command == "trek-measure ceilings --only 'a b'");
  CHECK(report.setting.date.size() == std::string("2026-11-21T12:00:00Z").size());
  const std::string json = to_json(report);
  for (const char* part : {"\"command\": \"trek-measure ceilings --only 'a b'\"",
                           "\"cpu\":", "\"load_before\":", "\"cublas\": \"13.1.0\"",
                           "\"median\":4200.5", "\"samples\":30", "\"verdict\":\"slower\"",
                           "\"target_ratio\":0.7", "\"at_most\":0.5", "\"no cuDNN\""}) {
    INFO(part);
    CHECK(json.find(part) != std::string::npos);
  }
  CHECK(text(report.figures[0]).find("4200") != std::string::npos);
  CHECK(text(report.figures[0]).find("asked for") == std::string::npos);
  CHECK(text(report.figures[1]).find("asked for at most 0.5") != std::string::npos);
}

TEST_CASE("bytes that are no text do not stop a report") {
  const char* const arguments[] = {"tool", "\xff\xfe"};
  Report report;
  report.setting = describe_setting("tool", 2, arguments);
  CHECK(to_json(report).find("\"command\"") != std::string::npos);
}

TEST_CASE("a report that cannot be written says why") {
  CHECK(write_file("/nowhere/report.json", "x").error().text() ==
        "writing /nowhere/report.json: No such file or directory");
  CHECK(write_file("/dev/full", "x").error().text() ==
        "writing /dev/full: No space left on device");
}

TEST_CASE("a machine whose processors are half taken is busy") {
  CHECK_FALSE(Load{0.9, 2}.busy());
  CHECK(Load{1.1, 2}.busy());
  CHECK(machine_load().processors >= 1);
}

TEST_CASE("numbers are short") {
  CHECK(short_number(788.4321) == "788");
  CHECK(short_number(48.071) == "48.1");
  CHECK(short_number(4.2) == "4.20");
  CHECK(short_number(0.5419) == "0.542");
  CHECK(short_number(0.00012345) == "0.000123");
}

}  // namespace
}  // namespace trek::measure
