#include "emulator/jit/relocate.h"

#include <string>
#include <vector>

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

#include "emulator/jit/places.h"

namespace trek::jit {
namespace {

using llvm::Value;

// The constant offset from the arena of a pointer that is computed from it; 0, which no place has, if there is none.
int64_t offset_of(const llvm::User* user, const llvm::Value* arena,
                  const llvm::DataLayout& layout) {
  const auto* step = llvm::dyn_cast<llvm::GEPOperator>(user);
  if (step == nullptr || step->getPointerOperand() != arena) return 0;
  llvm::APInt offset(64, 0);
  return step->accumulateConstantOffset(layout, offset) ? offset.getSExtValue() : 0;
}

// The body of `task` as a function of its places and of all arguments but the arena; `task` has none any more.
llvm::Function* with_places(llvm::Function& task, size_t places, size_t first_number) {
  llvm::LLVMContext& context = task.getContext();
  llvm::Module& module = *task.getParent();
  llvm::IRBuilder<> builder(context);
  std::vector<llvm::Type*> types(places, builder.getPtrTy());
  for (unsigned i = 1; i < task.arg_size(); ++i) types.push_back(task.getArg(i)->getType());
  auto* body =
      llvm::Function::Create(llvm::FunctionType::get(builder.getVoidTy(), types, false),
                             llvm::GlobalValue::InternalLinkage, task.getName() + ".body", module);
  body->addFnAttrs(llvm::AttrBuilder(context, task.getAttributes().getFnAttrs()));
  body->addFnAttr(llvm::Attribute::NoInline);  // arguments say best what does not overlap
  for (unsigned i = 0; i < places; ++i) {
    body->getArg(i)->setName("place" + std::to_string(i));
    body->addParamAttr(i, llvm::Attribute::NoAlias);
    if (i < first_number)
      body->addParamAttr(i,
                         llvm::Attribute::getWithAlignment(context, llvm::Align(kPlaceAlignment)));
  }
  body->splice(body->begin(), &task);
  for (unsigned i = 1; i < task.arg_size(); ++i) {
    llvm::Argument* argument = body->getArg(static_cast<unsigned>(places) + i - 1);
    argument->takeName(task.getArg(i));
    llvm::AttrBuilder attributes(context, task.getAttributes().getParamAttrs(i));
    argument->addAttrs(attributes);
    task.getArg(i)->replaceAllUsesWith(argument);
  }
  llvm::Argument* arena = task.getArg(0);
  for (llvm::User* user : llvm::make_early_inc_range(arena->users())) {
    const int64_t offset = offset_of(user, arena, module.getDataLayout());
    auto* step = llvm::cast<llvm::Instruction>(user);
    builder.SetInsertPoint(step);
    step->replaceAllUsesWith(builder.CreateConstInBoundsGEP1_64(
        builder.getInt8Ty(), body->getArg(static_cast<unsigned>(offset / kPlaceBytes - 1)),
        static_cast<uint64_t>(offset % kPlaceBytes)));
    step->eraseFromParent();
  }
  return body;
}

}  // namespace

bool goes_to_places(const llvm::Function& task, size_t places) {
  const llvm::Argument* arena = task.getArg(0);
  return llvm::all_of(arena->users(), [&](const llvm::User* user) {
    const int64_t offset = offset_of(user, arena, task.getParent()->getDataLayout());
    return llvm::isa<llvm::Instruction>(user) && offset >= kPlaceBytes &&
           static_cast<size_t>(offset / kPlaceBytes) <= places;
  });
}

void give_places(llvm::Function& task, size_t places, size_t first_number) {
  llvm::Module& module = *task.getParent();
  llvm::IRBuilder<> builder(module.getContext());
  const std::string name = task.getName().str();
  llvm::Function* body = &task;
  if (places > 0) {
    body = with_places(task, places, first_number);
    task.eraseFromParent();
  } else {
    task.setName(name + ".body");
    task.setLinkage(llvm::GlobalValue::InternalLinkage);
  }
  auto* pointer = builder.getPtrTy();
  auto* word = builder.getInt64Ty();
  auto* function = llvm::Function::Create(
      llvm::FunctionType::get(builder.getVoidTy(),
                              {pointer, pointer, pointer, word, pointer, word, word, pointer},
                              false),
      llvm::GlobalValue::ExternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", function));
  llvm::Argument* arena = function->getArg(0);
  std::vector<Value*> arguments;
  for (unsigned i = 0; i < places; ++i) {
    Value* entry = builder.CreateConstInBoundsGEP1_64(word, function->getArg(1), i);
    arguments.push_back(
        i < first_number ? builder.CreatePtrAdd(arena, builder.CreateLoad(word, entry)) : entry);
  }
  if (places == 0) arguments.push_back(arena);
  for (unsigned i = 2; i < function->arg_size(); ++i) arguments.push_back(function->getArg(i));
  builder.CreateCall(body, arguments);
  builder.CreateRetVoid();
}

}  // namespace trek::jit
