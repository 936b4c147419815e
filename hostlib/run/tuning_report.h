// What tuning tried and what came of it, for people.
#pragma once

#include <filesystem>
#include <string>

#include "hostlib/tuning.h"

namespace trek::run {

// One product: where it stands in the program, and a row for each candidate that was tried.
std::string product_text(const isa::Module& module, const Tuning& tuning,
                         const TunedProduct& product);
// All products in a line each, what was gained, and how well the cost model chooses. `file` is where tiles were kept.
std::string tuning_text(const Tuning& tuning, const std::filesystem::path& file);

// "128 x 256 in parts of 64, k in 4".
std::string tiles_text(const plan::MatrixTiles& tiles);

// What the cost model's choices take ÷ what the fastest candidates take: the geometric mean, and the most.
struct Ranking {
  double mean = 1;
  double worst = 1;
};
Ranking ranking_of(const Tuning& tuning);

}  // namespace trek::run
