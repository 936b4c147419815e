#include "emulator/plan/measured.h"

#include <algorithm>

#include <fmt/format.h>

namespace trek::plan {

ProductKey product_key(const Plan& plan, const Node& node) {
  return {node.operand_types[0].dtype, node.main_type.dtype, matrix_shape(node), plan.fast,
          node.share};
}

std::string text(const ProductKey& key, const Device& device) {
  const MatrixShape& shape = key.shape;
  std::string text = fmt::format("{} {}x{}x{}{}{}", isa::name(key.operands), shape.m, shape.n,
                                 shape.k, shape.ta ? " ta" : "", shape.tb ? " tb" : "");
  if (shape.batches != 1) text += fmt::format(", {} of them", shape.batches);
  if (key.result != key.operands) text += fmt::format(" to {}", isa::name(key.result));
  if (key.share != device.processors)
    text += fmt::format(", on {} of {} processors", key.share, device.processors);
  return text + (key.fast ? ", fast" : "");
}

std::optional<MatrixTiles> MeasuredTiles::find(const Plan& plan, const Node& node,
                                               const ProductWork& work) const {
  const auto counted = [&](MatrixTiles tiles) {
    count_tiles(tiles, work.shape);
    return tiles;
  };
  if (const auto set = by_instruction_.find(node.instruction); set != by_instruction_.end())
    return counted(set->second);
  const auto known = by_product_.find(product_key(plan, node));
  if (known == by_product_.end()) return std::nullopt;
  const MatrixTiles tiles = counted(known->second);
  const std::vector<MatrixTiles> all = candidates(plan.device, work);
  if (std::find(all.begin(), all.end(), tiles) == all.end()) return std::nullopt;
  return tiles;
}

}  // namespace trek::plan
