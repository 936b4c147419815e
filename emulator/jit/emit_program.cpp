#include "emulator/jit/emit_program.h"

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include <llvm/IR/IRBuilder.h>

#include "emulator/device/element.h"
#include "emulator/jit/separate.h"

namespace trek::jit {
namespace {

using device::Axis;
using device::DType;
using device::Map;
using device::Node;
using device::Operand;
using device::Program;
using device::Source;
using device::Step;
using llvm::Value;

// How far the elements of an operand are evenly spaced: those between two multiples of `together`, in steps of
// `stride`.
struct Spacing {
  int64_t together = INT64_MAX;
  int64_t stride = 1;
};
Spacing spacing_of(const Node& node, Map map) {
  if (map.kind == Map::same) return {};
  if (map.kind == Map::one) return {INT64_MAX, 0};
  const Axis& last = *node.axis(map.first + map.count - 1u);
  return {map.count == 1 ? INT64_MAX : last.size, last.stride};
}

int64_t together(int64_t a, int64_t b) {
  if (a == INT64_MAX) return b;
  return b == INT64_MAX ? a : std::gcd(a, b);
}

// Emits the body of one program.
class ProgramEmitter {
 public:
  ProgramEmitter(llvm::Module& module, const Node& node, const Program& program, uint32_t which)
      : module_(module),
        node_(node),
        program_(program),
        number_(std::to_string(which)),
        builder_(module.getContext()) {}

  std::array<llvm::Function*, 2> run() {
    auto* pointer = builder_.getPtrTy();
    auto* word = builder_.getInt64Ty();
    llvm::Function* function =
        define("trek_program_" + number_,
               llvm::FunctionType::get(word, {pointer, pointer, pointer, pointer, word, word, word},
                                       false));
    constexpr std::array<const char*, 7> kNames = {"arena", "addresses", "scalars", "fault",
                                                   "first", "ahead",     "main"};
    name_arguments(*function, kNames);
    fault_ = function->getArg(3);
    first_ = function->getArg(4);
    ahead_ = function->getArg(5);
    main_ = function->getArg(6);
    builder_.CreateRet(body());

    llvm::Function* together =
        define("trek_together_" + number_, llvm::FunctionType::get(word, false));
    builder_.CreateRet(number(together_));
    return {function, together};
  }

  // Of a node that is streamed (device/streamed.h).
  llvm::Function* run_streamed() {
    auto* pointer = builder_.getPtrTy();
    auto* word = builder_.getInt64Ty();
    llvm::Function* function =
        define("trek_streamed_program_" + number_,
               llvm::FunctionType::get(
                   word, {pointer, pointer, pointer, pointer, word, word, pointer}, false));
    constexpr std::array<const char*, 7> kNames = {"arena", "addresses", "scalars", "fault",
                                                   "first", "ahead",     "arrived"};
    name_arguments(*function, kNames);
    fault_ = function->getArg(3);
    first_ = function->getArg(4);
    ahead_ = function->getArg(5);
    main_ = none();
    arrived_ = function->getArg(6);
    builder_.CreateRet(body());
    return function;
  }

  // Of a row: nothing that can trap.
  llvm::Function* run_of_row() {
    auto* pointer = builder_.getPtrTy();
    auto* word = builder_.getInt64Ty();
    auto* half = builder_.getInt32Ty();
    llvm::Function* function =
        define("trek_row_program_" + number_,
               llvm::FunctionType::get(
                   half, {pointer, pointer, pointer, pointer, pointer, word, word}, false));
    constexpr std::array<const char*, 7> kNames = {"arena",   "addresses", "scalars", "mains",
                                                   "numbers", "first",     "ahead"};
    name_arguments(*function, kNames);
    fault_ = llvm::ConstantPointerNull::get(pointer);
    mains_ = function->getArg(3);
    numbers_ = function->getArg(4);
    first_ = function->getArg(5);
    ahead_ = function->getArg(6);
    builder_.CreateRet(builder_.CreateTrunc(body(), half));
    return function;
  }

 private:
  void name_arguments(llvm::Function& function, llvm::ArrayRef<const char*> names) {
    for (unsigned i = 0; i < names.size(); ++i) function.getArg(i)->setName(names[i]);
    arena_ = function.getArg(0);
    addresses_ = function.getArg(1);
    scalars_ = function.getArg(2);
  }
  Value* body() {
    slots_.resize(UINT8_MAX + 1);
    if (program_.narrow != 0)
      for (uint32_t l = 0; l < program_.loads; ++l) {
        const device::Load& load = *node_.load(program_.first_load + l);
        slots_[load.slot] = has_arrived(l) ? arrived(l) : operand(load.operand);
      }
    for (uint32_t s = 0; s < program_.steps; ++s) step(*node_.step(program_.first_step + s));
    return value(program_.result);
  }
  bool has_arrived(uint32_t load) const {
    return arrived_ != nullptr &&
           device::lies_in_fours(node_.operand(node_.load(program_.first_load + load)->operand));
  }
  Value* arrived(uint32_t load) {
    auto* word = builder_.getInt64Ty();
    return builder_.CreateLoad(word, builder_.CreateConstInBoundsGEP1_64(word, arrived_, load));
  }
  // Word `index` of those that a row's programs are given.
  Value* given(Value* words, uint32_t index) {
    auto* half = builder_.getInt32Ty();
    return builder_.CreateZExt(
        builder_.CreateLoad(half, builder_.CreateConstInBoundsGEP1_64(half, words, index)),
        builder_.getInt64Ty());
  }
  // A unit may have declared it.
  llvm::Function* define(const std::string& name, llvm::FunctionType* type) {
    auto* function =
        llvm::cast<llvm::Function>(module_.getOrInsertFunction(name, type).getCallee());
    builder_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "", function));
    return function;
  }
  Value* number(int64_t of) { return builder_.getInt64(static_cast<uint64_t>(of)); }
  Value* none() { return builder_.getInt64(0); }

  // Where element first + ahead lies: the place of `first`, and a stride for each ahead.
  Value* place(Map map) {
    const Spacing spacing = spacing_of(node_, map);
    together_ = together(together_, spacing.together);
    if (map.kind == Map::same) return builder_.CreateNSWAdd(first_, ahead_);
    if (map.kind == Map::one) return none();
    Value* place = none();
    Value* index = first_;
    for (uint32_t i = map.count - 1u; i > 0; --i) {
      const Axis& axis = *node_.axis(map.first + i);
      Value* above = builder_.CreateUDiv(index, number(axis.size));
      Value* own = builder_.CreateNSWSub(index, builder_.CreateNSWMul(above, number(axis.size)));
      place = builder_.CreateNSWAdd(place, builder_.CreateNSWMul(own, number(axis.stride)));
      index = above;
    }
    place = builder_.CreateNSWAdd(
        place, builder_.CreateNSWMul(index, number(node_.axis(map.first)->stride)));
    return builder_.CreateNSWAdd(place, builder_.CreateNSWMul(ahead_, number(spacing.stride)));
  }

  Value* operand(uint32_t index) {
    const Operand& from = node_.operand(index);
    llvm::LoadInst* block =
        builder_.CreateLoad(builder_.getInt32Ty(),
                            builder_.CreateConstInBoundsGEP1_64(builder_.getInt32Ty(), addresses_,
                                                                Separated::index_of(from.offset)));
    block->setMetadata(llvm::LLVMContext::MD_invariant_load,
                       llvm::MDNode::get(module_.getContext(), {}));
    Value* begin = builder_.CreatePtrAdd(
        arena_, builder_.CreateShl(builder_.CreateZExt(block, builder_.getInt64Ty()), 8));
    Value* at = builder_.CreatePtrAdd(begin, number(Separated::behind(from.offset)));
    auto load = module_.getOrInsertFunction(
        "trek_load",
        llvm::FunctionType::get(builder_.getInt64Ty(),
                                {builder_.getPtrTy(), builder_.getInt8Ty(), builder_.getInt64Ty()},
                                false));
    return builder_.CreateCall(load, {at, builder_.getInt8(from.dtype), place(from.map)});
  }

  Value* value(Source source) {
    switch (source.kind) {
      case Source::main:
        return mains_ == nullptr ? main_ : given(mains_, source.index);
      case Source::number:
        return given(numbers_, source.index);
      case Source::slot:
        return slots_[source.index] == nullptr ? none() : slots_[source.index];
      case Source::operand:
        return operand(source.index);
      case Source::scalar:
        return builder_.CreateLoad(
            builder_.getInt64Ty(),
            builder_.CreateConstInBoundsGEP1_64(builder_.getInt64Ty(), scalars_, source.index));
      default:
        return none();
    }
  }

  // A narrow program's values have 32 bits; register form says how they go on.
  Value* widened(Value* value, DType type) {
    if (program_.narrow == 0) return value;
    Value* low = builder_.CreateTrunc(value, builder_.getInt32Ty());
    return device::form_of(type) == device::Form::sint
               ? builder_.CreateSExt(low, builder_.getInt64Ty())
               : builder_.CreateZExt(low, builder_.getInt64Ty());
  }

  void step(const Step& of) {
    const auto from = static_cast<DType>(of.from);
    auto* half = builder_.getInt16Ty();
    auto* byte = builder_.getInt8Ty();
    auto* word = builder_.getInt64Ty();
    auto apply = module_.getOrInsertFunction(
        "trek_step",
        llvm::FunctionType::get(
            word, {half, byte, byte, word, word, word, word, word, word, builder_.getPtrTy()},
            false));
    Value* element = builder_.CreateNSWAdd(first_, ahead_);
    slots_[of.slot] = builder_.CreateCall(
        apply, {builder_.getInt16(of.opcode), builder_.getInt8(of.from), builder_.getInt8(of.to),
                widened(value(of.inputs[0]), from), widened(value(of.inputs[1]), from),
                widened(value(of.inputs[2]), from), value(of.numbers[0]), value(of.numbers[1]),
                element, fault_});
  }

  llvm::Module& module_;
  const Node& node_;
  const Program& program_;
  std::string number_;
  llvm::IRBuilder<> builder_;
  Value* arena_ = nullptr;
  Value* addresses_ = nullptr;
  Value* scalars_ = nullptr;
  Value* fault_ = nullptr;
  Value* first_ = nullptr;
  Value* ahead_ = nullptr;
  Value* main_ = nullptr;
  Value* arrived_ = nullptr;  // of a streamed program
  Value* mains_ = nullptr;    // of a row's program
  Value* numbers_ = nullptr;
  std::vector<Value*> slots_;
  int64_t together_ = INT64_MAX;
};

}  // namespace

std::array<llvm::Function*, 2> emit_program(llvm::Module& module, const Node& node,
                                            uint32_t which) {
  const Program& program = which < 2 ? node.fetch[which] : node.deliver[which - 2];
  return ProgramEmitter(module, node, program, which).run();
}

llvm::Function* emit_streamed_program(llvm::Module& module, const Node& node, uint32_t which) {
  return ProgramEmitter(module, node, node.deliver[which - 2], which).run_streamed();
}

llvm::Function* emit_row_program(llvm::Module& module, const Node& node, uint32_t which) {
  return ProgramEmitter(module, node, device::row_program(node, which), which).run_of_row();
}

}  // namespace trek::jit
