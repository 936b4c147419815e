#include "emulator/jit/inline_calls.h"

#include <vector>

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/InstrTypes.h>
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

llvm::Error inline_calls(llvm::Function& task) {
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
      if (callee.isMaterializable())
        if (llvm::Error error = callee.materialize()) return error;
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
