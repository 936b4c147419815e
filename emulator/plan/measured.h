// Tiles of products that were measured on a device, which link() takes before those that the cost model chooses.
//
// The best tiles follow from what a product is and how many processors it has, not from where it stands, so that is
// what they are remembered by. They are no more than advice: tiles that are not among the candidates of a product
// (another version's, a damaged file's) are as if there were none. Under strict numerics no tiles change a bit.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "emulator/plan/product.h"

namespace trek::plan {

// What the best tiles of a product depend on, besides the device.
struct ProductKey {
  isa::DType operands{};
  isa::DType result{};  // before the tail
  MatrixShape shape;
  bool fast = false;
  int64_t share = 1;  // processors that its tiles are for: Node::share
  auto operator<=>(const ProductKey&) const = default;
};
ProductKey product_key(const Plan& plan, const Node& node);
// "bf16 4096x768x3072 tb, fast", and what is not as usual: a batch, another type of result, a part of the processors.
std::string text(const ProductKey& key, const Device& device);

class MeasuredTiles {
 public:
  // Rows, columns and what else a choice has; what follows from these is worked out again.
  void set(const ProductKey& key, const MatrixTiles& tiles) { by_product_[key] = tiles; }
  // For measuring: tiles of one instruction of `main`, whatever the product.
  void set_instruction(uint32_t instruction, const MatrixTiles& tiles) {
    by_instruction_[instruction] = tiles;
  }
  bool empty() const { return by_product_.empty() && by_instruction_.empty(); }

  // The candidate for a product that was measured, if there is one.
  std::optional<MatrixTiles> find(const Plan& plan, const Node& node,
                                  const ProductWork& work) const;

 private:
  std::map<ProductKey, MatrixTiles> by_product_;
  std::map<uint32_t, MatrixTiles> by_instruction_;
};

}  // namespace trek::plan
