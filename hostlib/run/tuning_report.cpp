#include "hostlib/run/tuning_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "hostlib/place.h"
#include "hostlib/run/units.h"

namespace trek::run {
namespace {

std::string seconds_text(double seconds) {
  return time_text(static_cast<uint64_t>(std::llround(seconds * 1e9)));
}

std::string interval_text(const measure::Interval& interval) {
  return fmt::format("{} to {}", seconds_text(interval.low), seconds_text(interval.high));
}

std::string ratio_text(const measure::Estimate& ratio) {
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", ratio.median, ratio.interval.low,
                     ratio.interval.high);
}

// "demo.trek:14:3, demo.trek:18:3 and 5 more".
std::string places_text(const isa::Module& module, const std::vector<Place>& places) {
  constexpr size_t kNamed = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kNamed, places.size()); ++i)
    text += (i == 0 ? "" : ", ") + location_text(module, places[i]);
  if (places.size() > kNamed) text += fmt::format(" and {} more", places.size() - kNamed);
  return text;
}

std::string marks_text(const TunedProduct& product, size_t candidate) {
  std::string text;
  const auto mark = [&](size_t of, std::string_view name) {
    if (of == candidate) text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  };
  mark(0, "the cost model's");
  mark(product.before, "before");
  mark(product.now, "now");
  const measure::Estimate& alone = product.tried[candidate].alone;
  if (alone.samples > 0)
    text += fmt::format("{}{} in a program of its own", text.empty() ? "" : ", ",
                        seconds_text(alone.median));
  return text;
}

// A line without the blanks of a last column that is empty.
std::string line_of(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string tried_text(const TriedTiles& tried) {
  return tiles_text(tried.tiles) + (tried.is_divided ? ", the last rows apart" : "");
}

constexpr size_t kLeastWidth = 28;  // of a column of tiles

std::string table(const TunedProduct& product) {
  constexpr std::string_view kForm = "  {:<{}}  {:>6}  {:>8}  {:<20}  {:>5}  {:>8}  {}";
  size_t width = kLeastWidth;
  for (const TriedTiles& tried : product.tried) width = std::max(width, tried_text(tried).size());
  std::string text =
      line_of(fmt::format(kForm, "tiles", width, "tasks", "time", "95 %", "÷best", "estimate", ""));
  const double best = std::ranges::min(product.tried, {}, [](const TriedTiles& each) {
                        return each.seconds.median;
                      }).seconds.median;
  for (size_t i = 0; i < product.tried.size(); ++i) {
    const TriedTiles& tried = product.tried[i];
    text += line_of(fmt::format(
        kForm, tried_text(tried), width, tried.tiles.count, seconds_text(tried.seconds.median),
        interval_text(tried.seconds.interval), fmt::format("{:.2f}", tried.seconds.median / best),
        tried.is_divided ? "" : fmt::format("{:.3g}", tried.cycles), marks_text(product, i)));
  }
  return text;
}

}  // namespace

std::string tiles_text(const plan::MatrixTiles& tiles) {
  std::string text = fmt::format("{} x {}", tiles.rows, tiles.columns);
  if (tiles.part_columns != 0)
    text += fmt::format(" in parts of {}{}", tiles.part_columns, tiles.transposed ? " rows" : "");
  if (tiles.split != 1) text += fmt::format(", k in {}", tiles.split);
  if (tiles.pairing != plan::Pairing::none)
    text += fmt::format(", in pairs by {}", name(tiles.pairing));
  if (tiles.runs != 0) text += fmt::format(", in {} runs", tiles.runs);
  return text;
}

std::string product_text(const isa::Module& module, const Tuning& tuning,
                         const TunedProduct& product) {
  std::string text = fmt::format("{}  ; {}\n", plan::text(product.product, tuning.device),
                                 places_text(module, product.places));
  if (!product.is_measured()) return text + fmt::format("  not measured: {}\n", product.failure);
  text += table(product);
  if (product.tried.size() < product.candidates)
    text += fmt::format("  and {} more that the cost model thinks no better\n",
                        product.candidates - product.tried.size());
  return text;
}

Ranking ranking_of(const Tuning& tuning) {
  Ranking ranking;
  double logarithms = 0;
  double count = 0;
  for (const TunedProduct& product : tuning.products) {
    if (!product.is_measured()) continue;
    const TriedTiles& chosen = product.tried[0];
    const TriedTiles& fastest = product.tried[product.fastest];
    const double ratio = chosen.alone.samples > 0 ? chosen.alone.median / fastest.alone.median
                                                  : chosen.seconds.median / fastest.seconds.median;
    logarithms += std::log(ratio);
    ++count;
    ranking.worst = std::max(ranking.worst, ratio);
  }
  if (count > 0) ranking.mean = std::exp(logarithms / count);
  return ranking;
}

std::string tuning_text(const Tuning& tuning, const std::filesystem::path& file) {
  const plan::Device& device = tuning.device;
  const auto measured = std::count_if(tuning.products.begin(), tuning.products.end(),
                                      [](const TunedProduct& each) { return each.is_measured(); });
  std::string text = fmt::format("Tiles of {} products measured on {} ({}, {} processors)",
                                 measured, device.name, device.code, device.processors);
  if (measured > 0)
    text += file.empty() ? "; not kept" : fmt::format(", kept in {}", file.string());
  text += "\n";
  if (tuning.left_out > 0)
    text += fmt::format("  stopped: {} products were not measured\n", tuning.left_out);
  if (measured == 0) return text + "\n";
  constexpr std::string_view kForm = "  {:<44}  {:<{}}  {:<{}}  {:>8}  {}";
  const auto before_text = [](const TunedProduct& product) {
    return tried_text(product.tried[product.before]);
  };
  const auto now_text = [](const TunedProduct& product) {
    return product.now == product.before ? "the same" : tried_text(product.tried[product.now]);
  };
  size_t before = kLeastWidth;
  size_t now = kLeastWidth;
  for (const TunedProduct& product : tuning.products) {
    if (!product.is_measured()) continue;
    before = std::max(before, before_text(product).size());
    now = std::max(now, now_text(product).size());
  }
  text += line_of(fmt::format(kForm, "product", "before", before, "now", now, "time", "gain"));
  for (const TunedProduct& product : tuning.products) {
    if (!product.is_measured()) continue;
    text += line_of(fmt::format(kForm, plan::text(product.product, device), before_text(product),
                                before, now_text(product), now,
                                seconds_text(product.tried[product.now].time().median),
                                product.now == product.before ? "" : ratio_text(product.gain)));
  }
  const Ranking ranking = ranking_of(tuning);
  return text + fmt::format(
                    "  the cost model's choices take {:.2f} times as long as the fastest on "
                    "average, at most {:.2f}\n\n",
                    ranking.mean, ranking.worst);
}

}  // namespace trek::run
