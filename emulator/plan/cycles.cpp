#include "emulator/plan/cycles.h"

#include <algorithm>

#include "emulator/plan/product.h"

namespace trek::plan {
namespace {

// What an H200's processor does in a cycle: multiplications of f32, those of tensor cores in small tiles,
// bytes through a unit, steps of pointwise programs. Guesses; only their proportions matter.
constexpr double kMultiplications = 64;
constexpr double kByTensorCores = 700;  // of 16 bits; of f32 half as many,
constexpr double kTurned =
    0.1;  // and so much of one more for each operand that is turned around on its way
constexpr double kBytes = 12;
constexpr double kSteps = 48;

double bytes_of(const isa::Type& type) { return static_cast<double>(type.bytes()); }

// Of a node that sums a part of a product's k: how much of its operands it reads.
double part_of(const Node& node) {
  if (node.depth.count == 0) return 1;
  const MatrixShape shape = matrix_shape(node);
  return static_cast<double>(shape.k) / static_cast<double>(shape.whole_k);
}

// What a node has to do for all rows of its result, in cycles of one processor.
double work_of_all(const Plan& plan, const Node& node) {
  if (node.unit == Unit::control) return kCyclesOfTask;
  double given = 0;
  for (uint32_t result : node.results)
    given += bytes_of(node.put ? node.main_type : plan.views[result].type);
  double bytes = given;
  if (node.unit == Unit::move && node.opcode != isa::Opcode::Reshape) {
    // What is moved is read once. Where it is put into something larger, that is not touched.
    if (node.opcode == isa::Opcode::Update) given = bytes = bytes_of(node.operand_types[1]);
    bytes += given;
  } else {
    for (size_t i = 0; i < node.operands.size(); ++i)
      if (node.operands[i].kind == Operand::Kind::view)
        bytes += bytes_of(node.operand_types[i]) * part_of(node);
  }
  double cycles = kCyclesOfTask + bytes / kBytes;
  if (!node.results.empty()) {
    const auto elements = static_cast<double>(
        std::max(plan.views[node.results[0]].type.elements(),
                 node.operand_types.empty() ? 0 : node.operand_types[0].elements()));
    cycles += elements * static_cast<double>(node.steps()) / kSteps;
  }
  if (node.makes_gradient())
    return cycles + static_cast<double>(node.operand_types[0].elements()) *
                        static_cast<double>(node.operand_types[node.factors].shape[0]) /
                        kMultiplications;
  if (node.unit != Unit::matrix) return cycles;
  const MatrixShape shape = matrix_shape(node);
  const double each = static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                      static_cast<double>(shape.k) * static_cast<double>(shape.batches) *
                      static_cast<double>(products_of(node));
  const Product product = product_of(plan, node);
  if (product != Product::tensor && product != Product::small)
    return cycles + each / kMultiplications;
  const auto bytes_of_element = static_cast<double>(isa::byte_size(node.operand_types[0].dtype));
  const bool is_f32 = product == Product::tensor && node.operand_types[0].dtype == isa::DType::f32;
  const double turned = is_f32 ? kTurned * ((shape.ta ? 1 : 0) + (shape.tb ? 0 : 1)) : 0;
  return cycles + each * (1 + turned) * bytes_of_element / (2 * kByTensorCores);
}

}  // namespace

double cycles_of(const Plan& plan, const Node& node) {
  const double all = work_of_all(plan, node);
  if (node.rows.count == 0) return all;
  const isa::Shape& shape = plan.views[node.results[0]].type.shape;
  return all * static_cast<double>(node.rows.count) / static_cast<double>(shape[shape.rank() - 2]);
}

}  // namespace trek::plan
