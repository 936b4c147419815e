#include "hostlib/run/console.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "assembler/diagnostics.h"
#include "hostlib/run/output.h"
#include "hostlib/values.h"

namespace trek::run {
namespace {

constexpr uint64_t kListedTrips = 100;  // of an outermost loop whose trips get a line each
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr size_t kBarCells = 24;
constexpr int64_t kBarElements = 4;  // of an emitted tensor on the bar

size_t terminal_width() {
  winsize size = {};
  constexpr size_t kUsual = 80;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

}  // namespace

Console::Mode Console::mode_of(bool quiet) {
  if (quiet) return Mode::quiet;
  return isatty(STDOUT_FILENO) != 0 && isatty(STDERR_FILENO) != 0 ? Mode::terminal : Mode::lines;
}

Console::Console(Mode mode) : mode_(mode) {}

void Console::emitted(const Emitted& value) {
  if (mode_ == Mode::quiet) return;
  if (mode_ == Mode::lines) {
    print_out(fmt::format("{} = {}\n", printable(value.name), value_text(value.type, value.bytes)));
    std::fflush(stdout);
    return;
  }
  auto found = std::find_if(latest_.begin(), latest_.end(),
                            [&](const Latest& latest) { return latest.name == value.name; });
  if (found == latest_.end()) found = latest_.insert(found, {std::string(value.name), {}, true});
  found->text = value_text(value.type, value.bytes, levels_[0].active() ? kBarElements : 16);
  found->shown = false;
  if (levels_[0].active())
    draw();
  else
    print_latest("");
}

void Console::progress(int level, uint64_t done, uint64_t trips) {
  if (mode_ != Mode::terminal || level > 1) return;
  levels_[static_cast<size_t>(level)] = {done, trips};
  if (level == 0) {
    levels_[1] = {};
    fraction_ = trips == 0 ? 0 : static_cast<double>(done) / static_cast<double>(trips);
    if (done > 0 && (lists_trips() || done == trips))
      print_latest(lists_trips() ? fmt::format("{}/{}  ", done, trips) : "");
  } else if (levels_[0].active() && trips > 0) {
    const double inner = static_cast<double>(done) / static_cast<double>(trips);
    const Level& outer = levels_[0];
    fraction_ = std::max(
        fraction_, (static_cast<double>(outer.done) + inner) / static_cast<double>(outer.trips));
  }
  draw();
}

void Console::finish() {
  if (mode_ != Mode::terminal) return;
  print_latest("");
  clear_bar();
}

bool Console::lists_trips() const { return levels_[0].trips <= kListedTrips; }

void Console::print_latest(const std::string& label) {
  std::string line;
  for (Latest& latest : latest_) {
    if (latest.shown) continue;
    line += fmt::format("{}{} = {}", line.empty() ? "" : "  ", printable(latest.name), latest.text);
    latest.shown = true;
  }
  if (line.empty()) return;
  clear_bar();
  print_out(fmt::format("{}{}\n", label, line));
  std::fflush(stdout);
}

void Console::draw() {
  const Clock::time_point now = Clock::now();
  if (!levels_[0].active() || now - drawn_ < kRedraw) return;
  drawn_ = now;
  print_error("\r\x1b[K" + bar_text(terminal_width() - 1));
  bar_visible_ = true;
}

void Console::clear_bar() {
  if (!bar_visible_) return;
  print_error("\r\x1b[K");
  bar_visible_ = false;
}

std::string Console::bar_text(size_t width) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_).count();
  const auto filled = std::min(kBarCells, static_cast<size_t>(fraction_ * kBarCells));
  std::string text = fmt::format("[{}{}] {:3.0f} %  {}:{:02}  {}/{}", std::string(filled, '#'),
                                 std::string(kBarCells - filled, '.'), 100 * fraction_,
                                 seconds / 60, seconds % 60, levels_[0].done, levels_[0].trips);
  if (levels_[1].active()) text += fmt::format(" {}/{}", levels_[1].done, levels_[1].trips);
  for (const Latest& latest : latest_)
    text += fmt::format("  {} = {}", printable(latest.name), latest.text);
  return text.substr(0, width);
}

}  // namespace trek::run
