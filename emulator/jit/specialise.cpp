#include "emulator/jit/specialise.h"

#include <algorithm>
#include <array>
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

// The entry of units.cpp for a kind; empty: there is none.
llvm::StringRef unit_of(Kind kind) {
  switch (kind) {
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

// The node's own function: reads its scalars, calls the unit. And the descriptor.
std::pair<llvm::Function*, llvm::GlobalVariable*> emit_task(llvm::Module& module,
                                                            const Request& request,
                                                            const std::string& name,
                                                            llvm::StringRef unit) {
  const auto& node = *reinterpret_cast<const Node*>(request.record.data());
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> builder(context);
  auto* pointer = builder.getPtrTy();
  auto* word = builder.getInt64Ty();

  auto* bytes = llvm::ConstantDataArray::get(
      context, llvm::ArrayRef(reinterpret_cast<const uint8_t*>(request.record.data()),
                              request.record.size()));
  auto* record = new llvm::GlobalVariable(module, bytes->getType(), true,
                                          llvm::GlobalValue::PrivateLinkage, bytes, "node");
  record->setAlignment(llvm::Align(alignof(Node)));
  record->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);

  constexpr unsigned kAddresses = 1;
  constexpr unsigned kCounters = 4;
  const bool on_device = llvm::Triple(module.getTargetTriple()).isNVPTX();
  auto* of_arena = on_device ? builder.getPtrTy(kDeviceMemory) : pointer;
  auto* of_block = on_device ? builder.getPtrTy(kBlockMemory) : pointer;
  auto* function = llvm::Function::Create(
      llvm::FunctionType::get(builder.getVoidTy(),
                              {of_arena, pointer, of_block, word, of_block, word, word, of_block},
                              false),
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
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));

  const auto argument = [&](unsigned i) -> Value* {
    return on_device ? builder.CreateAddrSpaceCast(function->getArg(i), pointer)
                     : function->getArg(i);
  };
  Value* arena = argument(0);
  Value* addresses = function->getArg(kAddresses);
  Value* shared = argument(2);
  Value* counters = argument(kCounters);
  Value* fault = argument(7);
  Value* scalars = builder.CreateAlloca(word, builder.getInt64(node.scalars), "scalars");
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
  if (on_device) unit_call->addFnAttr(llvm::Attribute::Convergent);
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
  return units;
}

void define_block_threads(llvm::Module& module, uint32_t threads) {
  llvm::IRBuilder<> builder(module.getContext());
  auto* function = llvm::cast<llvm::Function>(
      module
          .getOrInsertFunction("trek_block_threads",
                               llvm::FunctionType::get(builder.getInt32Ty(), false))
          .getCallee());
  builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", function));
  builder.CreateRet(builder.getInt32(threads));
  function->addFnAttr(llvm::Attribute::AlwaysInline);
}

void Units::give_block_threads(uint32_t threads) { define_block_threads(*units_, threads); }

llvm::Error Units::specialise(const Request& request, const std::string& name) {
  const auto& node = *reinterpret_cast<const Node*>(request.record.data());
  const auto kind = static_cast<Kind>(node.kind);
  const llvm::StringRef unit = unit_of(kind);
  if (unit.empty()) return error("no unit for its kind");
  const auto [task, record] = emit_task(*units_, request, name, unit);
  made_.push_back({task, record});
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
    inlined = llvm::joinErrors(std::move(inlined), inline_calls(*programs.back()));
  }
  inlined = llvm::joinErrors(std::move(inlined), inline_calls(*task));
  for (llvm::Function* program : programs) program->deleteBody();  // the next node has its own
  if (inlined) return inlined;
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
  for (const Made& made : made_) {
    made.task->eraseFromParent();
    made.record->eraseFromParent();
  }
  made_.clear();
  return module;
}

}  // namespace trek::jit
