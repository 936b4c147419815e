#include "emulator/jit/optimise.h"

#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/InferAddressSpaces.h>
#include <llvm/Transforms/Scalar/InferAlignment.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

namespace trek::jit {

namespace {

// Runs the passes that add() adds.
template <typename Add>
void run(llvm::Module& module, llvm::TargetMachine& machine, const Add& add) {
  const bool on_device = machine.getTargetTriple().isNVPTX();  // where a thread has no vectors
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.SLPVectorization = !on_device;  // the outputs of a product
  tuning.LoopVectorization = !on_device;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::ModulePassManager passes;
  add(builder, passes);
  passes.run(module, modules);
}

}  // namespace

void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr("target-features", machine.getTargetFeatureString());
  }
  const bool on_device = machine.getTargetTriple().isNVPTX();
  run(module, machine, [on_device](llvm::PassBuilder& builder, llvm::ModulePassManager& passes) {
    // Which memory an address is of tells what it cannot alias, and how it is aligned.
    if (on_device)
      passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::InferAddressSpacesPass()));
    passes.addPass(builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3));
  });
}

void inline_always(llvm::Module& module, llvm::TargetMachine& machine) {
  run(module, machine, [](llvm::PassBuilder&, llvm::ModulePassManager& passes) {
    passes.addPass(llvm::AlwaysInlinerPass());
    passes.addPass(llvm::GlobalDCEPass());
    llvm::FunctionPassManager fold;
    fold.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    fold.addPass(llvm::EarlyCSEPass(true));
    fold.addPass(llvm::SimplifyCFGPass());
    fold.addPass(llvm::InferAddressSpacesPass());
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(fold)));
  });
}

llvm::Expected<llvm::SmallVector<char, 0>> generate(llvm::Module& module,
                                                    llvm::TargetMachine& machine,
                                                    llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> code;
  llvm::raw_svector_ostream out(code);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, out, nullptr, type))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "this target gives no such file");
  passes.run(module);
  return code;
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> gpu_machine(llvm::StringRef level) {
  const std::string triple = "nvptx64-nvidia-cuda";
  std::string why;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, why);
  if (target == nullptr) return llvm::createStringError(llvm::inconvertibleErrorCode(), why);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  // PTX 8.0, as the resident kernel has: drivers from CUDA 12.0 on take it. What blocks send each other (device/pairs.h) is
  // of 8.1.
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, level, level == "sm_90a" ? "+ptx81" : "+ptx80", options,
                                  std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> host_machine() {
  auto builder = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!builder) return builder.takeError();
  // LLVM 19.1 gives the operands of a masked vpternlog in the wrong order (README.md), so no AVX-512.
  if (builder->getTargetTriple().isX86()) builder->addFeatures({"-avx512f"});
  builder->setRelocationModel(llvm::Reloc::PIC_);
  builder->setCodeModel(llvm::CodeModel::Small);
  builder->setCodeGenOptLevel(llvm::CodeGenOptLevel::Aggressive);
  builder->getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return builder->createTargetMachine();
}

}  // namespace trek::jit
