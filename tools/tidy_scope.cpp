// A plugin for clang-tidy 19 (-load) that keeps system headers from its checks.
//
// clang-tidy matches every check against every declaration of a translation unit and drops what it
// finds in system headers, which are nearly all of them: 20 of the 28 seconds of an ordinary file of
// ours. This consumer comes before clang-tidy's and narrows what there is to traverse. LLVM 22 skips
// system headers by itself; this file goes when we use it.
#include <memory>
#include <string>
#include <vector>

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/FrontendPluginRegistry.h>

namespace {

class Scope : public clang::ASTConsumer {
 public:
  void HandleTranslationUnit(clang::ASTContext& context) override {
    const clang::SourceManager& sources = context.getSourceManager();
    std::vector<clang::Decl*> ours;
    for (clang::Decl* declaration : context.getTranslationUnitDecl()->decls()) {
      const clang::SourceLocation at = declaration->getLocation();
      if (at.isValid() && !sources.isInSystemHeader(at)) ours.push_back(declaration);
    }
    context.setTraversalScope(ours);
  }
};

class ScopeAction : public clang::PluginASTAction {
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& /*compiler*/,
                                                        llvm::StringRef /*file*/) override {
    return std::make_unique<Scope>();
  }
  bool ParseArgs(const clang::CompilerInstance& /*compiler*/,
                 const std::vector<std::string>& /*arguments*/) override {
    return true;
  }
  ActionType getActionType() override { return AddBeforeMainAction; }
};

const clang::FrontendPluginRegistry::Add<ScopeAction> kScope("tidy-scope", "skips system headers");

}  // namespace
