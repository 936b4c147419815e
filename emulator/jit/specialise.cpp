#include "emulator/jit/specialise.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "emulator/device/node.h"
#include "emulator/jit/emit_program.h"
#include "emulator/jit/inline_calls.h"

namespace trek::jit {
namespace {

using device::Kind;
using device::Node;
using llvm::Value;

llvm::Error error(const llvm::Twine& what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), what);
}

// The entry of units.cpp for a node; empty: there is none.
llvm::StringRef unit_of(const Node& node) {
  if (device::is_copied(node) &&
      static_cast<device::Product>(node.matrix.product) == device::Product::tensor) {
    switch (node.matrix.part_columns) {
#define TREK_PARTS(columns)                                               \
  case columns:                                                           \
    return node.matrix.transposed != 0 ? "trek_unit_transposed_" #columns \
                                       : "trek_unit_parts_" #columns;
#include "emulator/jit/parts.def"
#undef TREK_PARTS
      default:
        return "";
    }
  }
  switch (static_cast<Kind>(node.kind)) {
#define TREK_KIND(name) \
  case Kind::name:      \
    return "trek_unit_" #name;
#include "emulator/jit/kinds.def"
#undef TREK_KIND
    default:
      return "";
  }
}

// Address spaces of NVPTX.
constexpr unsigned kDeviceMemory = 1;
constexpr unsigned kBlockMemory = 3;

// Addresses that are read before the task's inputs are there: of longer lists those are that are needed.
constexpr size_t kReadAhead = 16;

// On a device: the addresses, read before the task's inputs are there.
Value* read_addresses(llvm::IRBuilder<>& builder, const Request& request, Value* addresses) {
  if (request.addresses > kReadAhead) return addresses;
  auto* word = builder.getInt32Ty();
  Value* read = builder.CreateAlloca(word, builder.getInt64(request.addresses), "read");
  for (size_t i = 0; i < request.addresses; ++i)
    builder.CreateStore(
        builder.CreateLoad(word, builder.CreateConstInBoundsGEP1_64(word, addresses, i)),
        builder.CreateConstInBoundsGEP1_64(word, read, i));
  return read;
}

// On a device: has the task wait for its inputs, unless its unit does, and be executed `times`, the last argument, if it
// may be. What is emitted next is executed for each turn, and what is the same in all of them LLVM works out before the
// wait. end() comes behind it.
class Turns {
 public:
  Turns(llvm::IRBuilder<>& builder, llvm::Function& function, const Node& node)
      : builder_(builder), function_(function), repeats_(device::is_repeated(node)) {
    if (device::waits_itself(node)) return;
    auto* entry = builder.GetInsertBlock();
    auto* first = block("first");
    auto* body = block("turn");
    out_ = block("out");
    if (repeats_) {
      head_ = block("head");
      auto* later = block("later");
      builder.CreateBr(head_);
      builder.SetInsertPoint(head_);
      turn_ = builder.CreatePHI(builder.getInt32Ty(), 2);
      turn_->addIncoming(builder.getInt32(0), entry);
      builder.CreateCondBr(builder.CreateIsNull(turn_), first, later);
      builder.SetInsertPoint(later);
      call("trek_meet", builder.getVoidTy());
      builder.CreateBr(body);
    } else {
      builder.CreateBr(first);
    }
    builder.SetInsertPoint(first);
    builder.CreateCondBr(call("trek_await_inputs", builder.getInt1Ty()), body, out_);
    builder.SetInsertPoint(body);
  }
  void end() {
    if (out_ == nullptr) return;
    if (repeats_) {
      Value* next = builder_.CreateAdd(turn_, builder_.getInt32(1));
      turn_->addIncoming(next, builder_.GetInsertBlock());
      builder_.CreateCondBr(builder_.CreateICmpEQ(next, &*std::prev(function_.arg_end())), out_,
                            head_);
    } else {
      builder_.CreateBr(out_);
    }
    builder_.SetInsertPoint(out_);
  }

 private:
  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(function_.getContext(), name, &function_);
  }
  // A function of the frame's.
  Value* call(const char* name, llvm::Type* type) {
    llvm::CallInst* made = builder_.CreateCall(
        function_.getParent()->getOrInsertFunction(name, llvm::FunctionType::get(type, false)));
    made->addFnAttr(llvm::Attribute::Convergent);
    return made;
  }

  llvm::IRBuilder<>& builder_;
  llvm::Function& function_;
  bool repeats_;
  llvm::BasicBlock* head_ = nullptr;
  llvm::BasicBlock* out_ = nullptr;
  llvm::PHINode* turn_ = nullptr;
};

// Arguments of a node's function.
constexpr unsigned kAddresses = 1;
constexpr unsigned kCounters = 4;

bool is_for_device(const llvm::Module& module) {
  return llvm::Triple(module.getTargetTriple()).isNVPTX();
}

// The node's own function, without a body.
llvm::Function* declare_task(llvm::Module& module, const Request& request,
                             const std::string& name) {
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> builder(context);
  auto* pointer = builder.getPtrTy();
  auto* word = builder.getInt64Ty();
  const bool on_device = is_for_device(module);
  auto* of_arena = on_device ? builder.getPtrTy(kDeviceMemory) : pointer;
  auto* of_block = on_device ? builder.getPtrTy(kBlockMemory) : pointer;
  // Where there is room for them, addresses lie in the task's slot.
  const bool near = request.addresses * sizeof(uint32_t) <= device::kNodeBytes;
  llvm::SmallVector<llvm::Type*> types = {
      of_arena, near ? of_block : pointer, of_block, word, of_block, word, word, of_block};
  if (on_device) types.push_back(builder.getInt32Ty());  // how often it is executed
  auto* function =
      llvm::Function::Create(llvm::FunctionType::get(builder.getVoidTy(), types, false),
                             llvm::GlobalValue::ExternalLinkage, name, module);
  constexpr std::array<const char*, 8> kNames = {"arena",    "addresses", "shared", "seed",
                                                 "counters", "first",     "count",  "fault"};
  for (unsigned i = 0; i < kNames.size(); ++i) {
    llvm::Argument* argument = function->getArg(i);
    argument->setName(kNames.at(i));
    // The threads of a block share a fault.
    if (argument->getType()->isPointerTy() && (!on_device || i == kAddresses || i == kCounters))
      argument->addAttr(llvm::Attribute::NoAlias);
  }
  if (on_device) function->addFnAttr(llvm::Attribute::Convergent);
  function->addParamAttr(0, llvm::Attribute::getWithAlignment(context, llvm::Align(256)));
  function->addParamAttr(2, llvm::Attribute::getWithAlignment(context, llvm::Align(16)));
  function->addFnAttr(llvm::Attribute::NoUnwind);
  return function;
}

llvm::GlobalVariable* emit_record(llvm::Module& module, const Request& request) {
  auto* bytes = llvm::ConstantDataArray::get(
      module.getContext(), llvm::ArrayRef(reinterpret_cast<const uint8_t*>(request.record.data()),
                                          request.record.size()));
  auto* record = new llvm::GlobalVariable(module, bytes->getType(), true,
                                          llvm::GlobalValue::PrivateLinkage, bytes, "node");
  record->setAlignment(llvm::Align(alignof(Node)));
  record->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  return record;
}

// Of a move in words, which the frame executes: it knows when one of its trips may follow another.
llvm::Function* emit_move_in_words(llvm::Module& module, const Request& request,
                                   const std::string& name) {
  llvm::IRBuilder<> builder(module.getContext());
  llvm::Function* function = declare_task(module, request, name);
  builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", function));
  builder
      .CreateCall(module.getOrInsertFunction("trek_move_in_words",
                                             llvm::FunctionType::get(builder.getVoidTy(), false)))
      ->addFnAttr(llvm::Attribute::Convergent);
  builder.CreateRetVoid();
  return function;
}

// Reads the node's scalars and calls the unit. And the descriptor.
std::pair<llvm::Function*, llvm::GlobalVariable*> emit_task(llvm::Module& module,
                                                            const Request& request,
                                                            const std::string& name,
                                                            llvm::StringRef unit) {
  const auto& node = *reinterpret_cast<const Node*>(request.record.data());
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> builder(context);
  auto* pointer = builder.getPtrTy();
  auto* word = builder.getInt64Ty();
  const bool on_device = is_for_device(module);
  llvm::GlobalVariable* record = emit_record(module, request);
  llvm::Function* function = declare_task(module, request, name);
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));

  const auto argument = [&](unsigned i) -> Value* {
    llvm::Argument* given = function->getArg(i);
    return given->getType() == pointer ? given : builder.CreateAddrSpaceCast(given, pointer);
  };
  Value* arena = argument(0);
  Value* addresses = argument(kAddresses);
  Value* shared = argument(2);
  Value* counters = argument(kCounters);
  Value* fault = argument(7);
  Value* scalars = builder.CreateAlloca(word, builder.getInt64(node.scalars), "scalars");
  std::optional<Turns> turns;
  if (on_device) {
    addresses = read_addresses(builder, request, addresses);
    turns.emplace(builder, *function, node);
  }
  auto read = module.getOrInsertFunction(
      "trek_scalar", llvm::FunctionType::get(word, {pointer, pointer, pointer, pointer}, false));
  for (uint32_t i = 0; i < node.scalars; ++i) {
    const uint64_t at = node.scalars_at + i * sizeof(device::Scalar);
    Value* scalar = builder.CreateCall(
        read, {builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), record, at), arena,
               addresses, counters});
    builder.CreateStore(scalar, builder.CreateConstInBoundsGEP1_64(word, scalars, i));
  }
  auto call = module.getOrInsertFunction(
      unit, llvm::FunctionType::get(
                builder.getVoidTy(),
                {pointer, pointer, pointer, pointer, word, pointer, word, word, pointer}, false));
  llvm::CallInst* unit_call =
      builder.CreateCall(call, {record, arena, addresses, shared, function->getArg(3), scalars,
                                function->getArg(5), function->getArg(6), fault});
  if (on_device) {
    unit_call->addFnAttr(llvm::Attribute::Convergent);
    turns->end();
  }
  builder.CreateRetVoid();
  return {function, record};
}

}  // namespace

llvm::Expected<std::unique_ptr<Units>> Units::open(llvm::StringRef bitcode) {
  std::unique_ptr<Units> units(new Units);
  auto module =
      llvm::getLazyBitcodeModule(llvm::MemoryBufferRef(bitcode, "units"), units->context_);
  if (!module) return module.takeError();
  units->units_ = std::move(*module);
  if (llvm::Error error = units->units_->materializeMetadata()) return error;
  auto* pointer = llvm::PointerType::get(units->context_, 0);
  units->known_ =
      new llvm::GlobalVariable(*units->units_, pointer, true, llvm::GlobalValue::PrivateLinkage,
                               llvm::Constant::getNullValue(pointer), "known_node");
  return units;
}

void define_number(llvm::Module& module, llvm::StringRef name, uint32_t number) {
  llvm::IRBuilder<> builder(module.getContext());
  auto* function = llvm::cast<llvm::Function>(
      module.getOrInsertFunction(name, llvm::FunctionType::get(builder.getInt32Ty(), false))
          .getCallee());
  builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", function));
  builder.CreateRet(builder.getInt32(number));
  function->addFnAttr(llvm::Attribute::AlwaysInline);
}

void Units::give_block_threads(uint32_t threads) {
  define_number(*units_, kBlockThreadsGiven, threads);
}

llvm::Error Units::specialise(const Request& request, const std::string& name) {
  const auto& node = *reinterpret_cast<const Node*>(request.record.data());
  const auto kind = static_cast<Kind>(node.kind);
  if (device::is_in_words(node)) {
    made_.push_back({emit_move_in_words(*units_, request, name), emit_record(*units_, request)});
    return llvm::Error::success();
  }
  const llvm::StringRef unit = unit_of(node);
  if (unit.empty()) return error("no unit for it");
  const auto [task, record] = emit_task(*units_, request, name, unit);
  made_.push_back({task, record});
  known_->setInitializer(record);
  std::vector<llvm::Function*> programs;
  for (uint32_t which = 0; kind != Kind::phases && which < 4; ++which)
    for (llvm::Function* function : emit_program(*units_, node, which))
      programs.push_back(function);
  for (uint32_t which = 2; kind == Kind::program && which < 4; ++which)
    programs.push_back(emit_streamed_program(*units_, node, which));
  llvm::Error inlined = llvm::Error::success();
  // A row's programs are called for each of a lane's elements, so they are folded before they are copied.
  for (uint32_t which = 0; node.phases_at != 0 && which < device::kRowPrograms; ++which) {
    programs.push_back(emit_row_program(*units_, node, which));
    inlined = llvm::joinErrors(std::move(inlined), inline_calls(*programs.back(), *known_));
  }
  inlined = llvm::joinErrors(std::move(inlined), inline_calls(*task, *known_));
  for (llvm::Function* program : programs) program->deleteBody();  // the next node has its own
  if (inlined) return inlined;
  // What was not folded would be the node of the last function of the module.
  for (const llvm::User* user : known_->users())
    if (const auto* of = llvm::dyn_cast<llvm::Instruction>(user);
        of != nullptr && of->getFunction() == task)
      return error("its node is not known everywhere in it");
  // Written for a target of clang's choice: who makes the code says for which processor.
  for (const char* attribute :
       {"target-cpu", "target-features", "tune-cpu", "frame-pointer", "min-legal-vector-width"})
    task->removeFnAttr(attribute);
  std::string text;
  llvm::raw_string_ostream out(text);
  if (llvm::verifyFunction(*task, &out)) return error("the code is not valid: " + text);
  return llvm::Error::success();
}

std::unique_ptr<llvm::Module> Units::take() {
  llvm::ValueToValueMapTy map;
  auto module = llvm::CloneModule(*units_, map, [&](const llvm::GlobalValue* value) {
    return llvm::isa<llvm::GlobalVariable>(value) ||
           std::ranges::any_of(made_, [&](const Made& made) { return made.task == value; });
  });
  for (llvm::Function& function : llvm::make_early_inc_range(*module))
    if (function.isDeclaration() && function.use_empty()) function.eraseFromParent();
  for (llvm::GlobalVariable& variable : llvm::make_early_inc_range(module->globals()))
    if (variable.use_empty()) variable.eraseFromParent();
  known_->setInitializer(llvm::Constant::getNullValue(known_->getValueType()));
  for (const Made& made : made_) {
    made.task->eraseFromParent();
    made.record->eraseFromParent();
  }
  made_.clear();
  return module;
}

}  // namespace trek::jit
