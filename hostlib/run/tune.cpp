#include "hostlib/run/tune.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "hostlib/engines.h"
#include "hostlib/run/interrupt.h"
#include "hostlib/run/output.h"
#include "hostlib/run/tuning_report.h"
#include "hostlib/tile_file.h"

namespace trek::run {
namespace {

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings)
    print_error(fmt::format("trek-run: warning: {}\n", warning));
}

std::shared_ptr<plan::MeasuredTiles> remembered_in(const std::filesystem::path& file,
                                                   const plan::Device& device) {
  std::vector<std::string> warnings;
  auto tiles = std::make_shared<plan::MeasuredTiles>();
  for (const RememberedTiles& each : read_tiles(file, device, warnings))
    tiles->set(each.product, each.tiles);
  print_warnings(warnings);
  return tiles;
}

// Keeps products in the file one by one, until that fails.
class Keeper {
 public:
  explicit Keeper(std::filesystem::path file) : file_(std::move(file)), is_kept_(!file_.empty()) {}

  void keep(const plan::Device& device, const TunedProduct& product) {
    if (!is_kept_) return;
    const TriedTiles& now = product.tried[product.now];
    const RememberedTiles remembered = {product.product, now.tiles, now.time().median};
    std::vector<std::string> warnings;
    is_kept_ = write_tiles(file_, device, {&remembered, 1}, warnings);
    has_kept_ = true;
    print_warnings(warnings);
  }
  // Where they are; empty where they are nowhere, or where there were none.
  std::filesystem::path file() const {
    return is_kept_ && has_kept_ ? file_ : std::filesystem::path();
  }

 private:
  std::filesystem::path file_;
  bool is_kept_;
  bool has_kept_ = false;
};

// Measures, shows and keeps.
isa::Result<Tuning> tune_and_keep(const isa::Module& module, Engine& engine,
                                  const TuneOptions& options, plan::MeasuredTiles& tiles) {
  Keeper keeper(tile_file());
  auto tuning =
      tune(module, engine, options, [&](const Tuning& so_far, const TunedProduct& product) {
        print_out(product_text(module, so_far, product));
        // The plan comes to a division by itself.
        if (!product.is_measured() || product.tried[product.now].is_divided) return;
        keeper.keep(so_far.device, product);
        tiles.set(product.product, product.tried[product.now].tiles);
      });
  if (tuning) print_out(tuning_text(*tuning, keeper.file()));
  return tuning;
}

}  // namespace

std::shared_ptr<const plan::MeasuredTiles> remembered_tiles(const plan::Device& device) {
  return remembered_in(tile_file(), device);
}

RunTiles tiles_of(const Options& options, const isa::Module& module, Engine& engine,
                  const LoadOptions& load, const std::atomic<bool>& stop) {
  RunTiles made;
  const auto device = engine.device(load);
  // The load will say what is wrong with the device.
  if (!device) return made;
  if (*device == nullptr) {
    if (!options.tune) return made;
    print_error(
        fmt::format("trek-run: --tune: the engine {} has nothing to tune: it cuts no work into "
                    "tiles\n",
                    engine.name()));
    made.code = kExitUsage;
    return made;
  }
  auto tiles = remembered_in(tile_file(), **device);
  made.tiles = tiles;
  if (!options.tune) return made;

  TuneOptions tuning;
  tuning.load = load;
  tuning.load.tiles = std::make_shared<plan::MeasuredTiles>(*tiles);
  tuning.stop = &stop;
  // `auto` begins by interpreting; the tiles are for what it moves to.
  std::string why;
  const std::unique_ptr<Engine> jit = engine.name() == "auto" ? make_engine("jit", why) : nullptr;
  auto tuned = tune_and_keep(module, jit == nullptr ? engine : *jit, tuning, *tiles);
  // The load will meet the same problem.
  if (tuned) made.tuning = tuned.take();
  if (stop) made.code = kExitInterrupted;
  return made;
}

}  // namespace trek::run
