// Which way a product goes: its operands as they are, padded or turned around before it, or as a small one.
#include <algorithm>

#include "emulator/plan/product.h"

namespace trek::plan {

namespace {

constexpr int64_t kStep = 64;  // k that products by tensor cores may be divided at
constexpr int64_t kSmallWork = int64_t{1} << 27;  // multiplications
// Cycles that a ring of copies begins later than a small product where it does not go on from another one, which the
// estimates of compiled products leave out.
constexpr double kRingBegins = 800;
// Cycles of a node that pads, and of each of its elements; from an H200.
constexpr double kPad = 9000;
constexpr double kPadElement = 0.009;
// The same of one that turns an operand around: elements within the second-level cache, and those of a matrix that does
// not fit there beside its copy. 768x3072, 16384x768 and 16384x3072 take 7, 34 and 137 us; but with 0.0052, which would be
// that, 768x2304x16384 turns both of its operands, and takes 363 us instead of 310.
constexpr double kTurn = 3500;
constexpr double kTurnElement = 0.0034;
constexpr double kTurnFarElement = 0.0075;
constexpr int64_t kTurnNear = int64_t{20} << 20;  // bytes
constexpr int64_t kMemoryOfCopy = 16;  // times what a copy may have is what the device has

// What a product of f32, f16 or bf16 takes on its own: on operands as they are, and after those of odd lines have been
// padded.
// A part of one takes what the whole does, so that all of its parts go one way.
class Ways {
 public:
  Ways(const Device& device, isa::DType element, const MatrixShape& shape) : device_(device) {
    work_.element = element;
    work_.shape = shape;
    work_.shape.k = shape.whole_k;
    work_.share = device.processors;
    const auto elements = [&](int64_t line, int64_t lines) {
      return line % line_elements(element) == 0 ? 0 : line * lines * shape.batches;
    };
    const int64_t k = shape.whole_k;
    odd_ = elements(shape.ta ? shape.m : k, shape.ta ? k : shape.m) +
           elements(shape.tb ? k : shape.n, shape.tb ? shape.n : k);
  }
  double brought() { return least(Product::tensor, false); }
  double copied() {
    const double pad = odd_ == 0 ? 0 : kPad + kPadElement * static_cast<double>(odd_);
    return least(Product::tensor, true) + pad;
  }
  // As they come if nobody pads.
  double by_tensor_cores() {
    if (!device_.copies_tensors) return brought();
    return odd_ == 0 ? copied() : std::min(brought(), copied());
  }
  double small() { return least(Product::small, false); }
  double ordered() { return least(Product::ordered, true); }

 private:
  double least(Product product, bool copied) {
    work_.product = product;
    work_.copied = copied;
    const int64_t step = product == Product::ordered ? kOrderedSegment : kStep;
    work_.most_split = (work_.shape.k + step - 1) / step;
    return estimate(device_, work_, choose(device_, work_));
  }

  const Device& device_;
  ProductWork work_;
  int64_t odd_ = 0;  // elements of odd lines
};

double turn_of(const isa::Type& operand) {
  const double element = operand.bytes() <= kTurnNear ? kTurnElement : kTurnFarElement;
  return kTurn + element * static_cast<double>(operand.elements());
}

// Whether both lines and columns are multiples of what a copy engine brings.
bool has_whole_pieces(const isa::Type& operand) {
  const isa::Shape& shape = operand.shape;
  const int64_t pieces = line_elements(operand.dtype);
  return shape[shape.rank() - 1] % pieces == 0 && shape[shape.rank() - 2] % pieces == 0;
}

}  // namespace

bool gains_by_padding(const Device& device, isa::DType element, const MatrixShape& shape) {
  if (!device.copies_tensors) return false;
  Ways ways(device, element, shape);
  return ways.brought() > ways.copied();
}

Turns gains_by_turning(const Device& device, Product product, const isa::Type& left,
                       const isa::Type& right, const MatrixShape& shape) {
  if (!device.copies_tensors || !has_whole_pieces(left) || !has_whole_pieces(right)) return {};
  if (product == Product::ordered && shape.whole_k % kOrderedDepth != 0) return {};
  // What copies are turned to: by line for tensor cores, else by k.
  const bool ta = product != Product::tensor;
  const bool tb = product == Product::tensor;
  const int64_t most = device.memory_bytes / kMemoryOfCopy;
  const bool may_left = shape.ta != ta && left.bytes() <= most;
  const bool may_right = shape.tb != tb && right.bytes() <= most;
  const auto cycles = [&](Turns turns) {
    MatrixShape turned = shape;
    turned.ta = turns.left ? ta : shape.ta;
    turned.tb = turns.right ? tb : shape.tb;
    Ways ways(device, left.dtype, turned);
    return (product == Product::tensor ? ways.copied() : ways.ordered()) +
           (turns.left ? turn_of(left) : 0) + (turns.right ? turn_of(right) : 0);
  };
  Turns best;
  double least = cycles(best);
  for (const Turns turns : {Turns{false, true}, Turns{true, false}, Turns{true, true}}) {
    if ((turns.left && !may_left) || (turns.right && !may_right)) continue;
    const double taken = cycles(turns);
    if (taken >= least) continue;
    least = taken;
    best = turns;
  }
  return best;
}

bool gains_by_small(const Device& device, isa::DType element, const MatrixShape& shape) {
  if (shape.m * shape.n * shape.whole_k * shape.batches > kSmallWork) return false;
  Ways ways(device, element, shape);
  return ways.small() < ways.by_tensor_cores() + (device.interprets ? 0 : kRingBegins);
}

}  // namespace trek::plan
