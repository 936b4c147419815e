#include "emulator/plan/rules.h"

namespace trek::plan {

using isa::Opcode;

// The switch has no default, so that the compiler names a row that is missing. Pointwise rows come from
// the table of their meanings; they are all alike.
Rule rule_of(Opcode opcode) {
  constexpr Rule kChain{Unit::vector, Tiling::elements, true, false, false};
  constexpr Rule kReduction{Unit::reduce, Tiling::lines, false, true, true};
  constexpr Rule kMove{Unit::move, Tiling::elements, false, false, false};
  constexpr Rule kControl{Unit::control, Tiling::whole, false, false, false};
  switch (opcode) {
#define TREK_REAL(Id, ...) case Opcode::Id:
#define TREK_NUMBER(Id, ...) case Opcode::Id:
#define TREK_INTEGER(Id, ...) case Opcode::Id:
#define TREK_BITS(Id, ...) case Opcode::Id:
#define TREK_RELATION(Id, ...) case Opcode::Id:
#include "isa/semantics/elements.def"
#undef TREK_REAL
#undef TREK_NUMBER
#undef TREK_INTEGER
#undef TREK_BITS
#undef TREK_RELATION
    case Opcode::Copy:
    case Opcode::Cast:
    case Opcode::Where:
      return kChain;

    case Opcode::Fill:
    case Opcode::Iota:
    case Opcode::Reshape:
    case Opcode::Permute:
    case Opcode::Slice:
    case Opcode::Concat:
    case Opcode::Pad:
    case Opcode::Gather:
    case Opcode::Broadcast:
    case Opcode::OneHot:
      return kMove;
    case Opcode::Update:
      return {Unit::move, Tiling::elements, false, false, false};
    case Opcode::Scatter:
    case Opcode::ScatterAdd:
      return {Unit::move, Tiling::lines, false, false, false};

    case Opcode::Sum:
    case Opcode::Mean:
    case Opcode::Max:
    case Opcode::Min:
    case Opcode::Prod:
    case Opcode::Norm2:
    case Opcode::Argmax:
    case Opcode::Argmin:
    case Opcode::Softmax:
    case Opcode::LogSoftmax:
      return kReduction;
    case Opcode::Cumsum:
    case Opcode::SoftmaxGrad:
    case Opcode::LogSoftmaxGrad:
      return {Unit::reduce, Tiling::lines, false, false, true};
    case Opcode::Sort:
    case Opcode::Argsort:
    case Opcode::TopK:
      return {Unit::order, Tiling::lines, false, false, false};
    case Opcode::CrossEntropy:
    case Opcode::CrossEntropyGrad:
    case Opcode::CrossEntropyWithGrad:
      return {Unit::reduce, Tiling::lines, false, false, false};

    case Opcode::Matmul:
      return {Unit::matrix, Tiling::matrix, false, false, true};

    case Opcode::Sgd:
    case Opcode::SgdMomentum:
    case Opcode::Adam:
    case Opcode::Adamw:
    case Opcode::Rmsprop:
      return {Unit::optimizer, Tiling::elements, false, false, false};

    case Opcode::Uniform:
    case Opcode::Normal:
    case Opcode::Bernoulli:
    case Opcode::Dropout:
    case Opcode::DropoutGrad:
      return {Unit::random, Tiling::elements, false, false, false};
    case Opcode::Permutation:
      return {Unit::random, Tiling::whole, false, false, false};

    case Opcode::ClipNorm:  // split into others
    case Opcode::Loop:
    case Opcode::While:
    case Opcode::Test:
    case Opcode::If:
    case Opcode::Else:
    case Opcode::Yield:
    case Opcode::Call:
    case Opcode::Return:
    case Opcode::Load:
    case Opcode::Store:
    case Opcode::AssertFinite:
    case Opcode::Trap:
    case Opcode::Emit:
    case Opcode::Next:
      return kControl;
  }
  return kControl;
}

bool is_reduction(Opcode opcode) {
  switch (opcode) {
    case Opcode::Sum:
    case Opcode::Mean:
    case Opcode::Prod:
    case Opcode::Norm2:
    case Opcode::Max:
    case Opcode::Min:
      return true;
    default:
      return false;
  }
}

}  // namespace trek::plan
