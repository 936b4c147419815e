#include "emulator/jit/inline_calls.h"

#include <vector>

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SCCP.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Cloning.h>

namespace trek::jit {
namespace {

// An argument that is a copy of an object which the function only reads (a Task) is passed as the object itself:
// what is known of the object is then known in the function too. Nobody writes to one after it was made.
void pass_objects(llvm::CallBase& call, llvm::Function& callee) {
  for (unsigned i = 0; i < call.arg_size(); ++i) {
    if (!call.paramHasAttr(i, llvm::Attribute::ByVal)) continue;
    if (!callee.hasParamAttribute(i, llvm::Attribute::ReadOnly)) continue;
    call.removeParamAttr(i, llvm::Attribute::ByVal);
    callee.removeParamAttr(i, llvm::Attribute::ByVal);
  }
}

// Has a function that was just read take its node from `known`, where it has a Task by copy, which begins with a pointer
// to the node: what depends on that is then folded while the function is copied, and not when all of it has been.
void know_node(llvm::Function& function, llvm::GlobalVariable& known) {
  for (llvm::Argument& argument : function.args()) {
    const auto* type = llvm::dyn_cast_or_null<llvm::StructType>(argument.getParamByValType());
    if (type == nullptr || !type->hasName() || type->getName() != "class.trek::device::Task")
      continue;
    for (llvm::User* user : llvm::make_early_inc_range(argument.users()))
      if (auto* load = llvm::dyn_cast<llvm::LoadInst>(user);
          load != nullptr && load->getType()->isPointerTy())
        load->setOperand(llvm::LoadInst::getPointerOperandIndex(), &known);
  }
}

// Calls of functions that have a body.
std::vector<llvm::CallBase*> calls_of(llvm::Function& task) {
  std::vector<llvm::CallBase*> calls;
  for (llvm::Instruction& instruction : llvm::instructions(task)) {
    auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    if (call == nullptr) continue;
    const llvm::Function* callee = call->getCalledFunction();
    if (callee != nullptr && !callee->isDeclaration()) calls.push_back(call);
  }
  return calls;
}

}  // namespace

llvm::Error inline_calls(llvm::Function& task, llvm::GlobalVariable& known) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::FunctionPassManager fold;
  fold.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  fold.addPass(llvm::EarlyCSEPass(true));
  fold.addPass(llvm::SCCPPass());
  fold.addPass(llvm::SimplifyCFGPass());
  for (;;) {
    const std::vector<llvm::CallBase*> calls = calls_of(task);
    if (calls.empty()) return llvm::Error::success();
    for (llvm::CallBase* call : calls) {
      llvm::Function& callee = *call->getCalledFunction();
      if (callee.isMaterializable()) {
        if (llvm::Error error = callee.materialize()) return error;
        know_node(callee, known);
      }
      pass_objects(*call, callee);
      llvm::InlineFunctionInfo info;
      const llvm::InlineResult result = llvm::InlineFunction(*call, info);
      if (!result.isSuccess())
        return llvm::createStringError(llvm::inconvertibleErrorCode(), "%s cannot be inlined: %s",
                                       callee.getName().data(), result.getFailureReason());
    }
    functions.invalidate(task, llvm::PreservedAnalyses::none());  // of before the inlining
    fold.run(task, functions);
  }
}

}  // namespace trek::jit
