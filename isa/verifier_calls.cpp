// Between functions: no recursion, and no tensor that a callee reaches by two ways while one of them
// writes. Both walk the call graph without recursion of their own.
#include <algorithm>

#include "isa/verifier_parts.h"

namespace trek::isa::verifier {
namespace {

// What is asked of the call graph is linear in it for every tensor handed over in place; a module may
// ask no more than this in all, so that a hostile one cannot take quadratic time.
constexpr uint64_t kMostSteps = uint64_t{1} << 28;

struct CallSite {
  uint32_t callee = 0;
  uint32_t instruction = 0;
};

class CallGraph {
 public:
  CallGraph(const Module& module, Report& report)
      : module_(module),
        report_(report),
        calls_(module.functions.size()),
        tensors_(module.functions.size()) {
    for (size_t f = 0; f < module.functions.size(); ++f) collect(f);
  }

  void check() {
    if (check_recursion()) check_inplace_arguments();
  }

 private:
  void collect(size_t f) {
    const Function& function = module_.functions[f];
    for (uint32_t i = 0; i < function.code.size(); ++i) {
      const Instruction& instruction = function.code[i];
      for (Ref word : module_.results(instruction)) note(f, word);
      for (Ref word : module_.operands(instruction)) note(f, word);
      if (instruction.opcode == Opcode::Call)
        calls_[f].push_back({module_.attributes(instruction)[0].index(), i});
    }
    std::sort(tensors_[f].begin(), tensors_[f].end());
    tensors_[f].erase(std::unique(tensors_[f].begin(), tensors_[f].end()), tensors_[f].end());
  }

  void note(size_t f, Ref word) {
    if (word.is(RefKind::tensor)) tensors_[f].push_back(word.index());
  }

  // Depth-first search with colours; false where there is a cycle.
  bool check_recursion() {
    enum class Colour : uint8_t { white, grey, black };
    std::vector<Colour> colours(calls_.size(), Colour::white);
    struct Frame {
      uint32_t function;
      size_t next;
    };
    std::vector<Frame> stack;
    for (uint32_t root = 0; root < calls_.size(); ++root) {
      if (colours[root] != Colour::white) continue;
      stack.push_back({root, 0});
      colours[root] = Colour::grey;
      while (!stack.empty()) {
        Frame& frame = stack.back();
        if (frame.next == calls_[frame.function].size()) {
          colours[frame.function] = Colour::black;
          stack.pop_back();
          continue;
        }
        const uint32_t caller = frame.function;
        const CallSite site = calls_[caller][frame.next++];
        if (colours[site.callee] == Colour::grey) {
          report_.add(
              ErrorCode::Recursion, module_.functions[caller], site.instruction,
              fmt::format(
                  "'{}' calls '{}', which is already being executed: functions do not recurse",
                  module_.strings[module_.functions[caller].name],
                  module_.strings[module_.functions[site.callee].name]));
          return false;
        }
        if (colours[site.callee] == Colour::white) {
          colours[site.callee] = Colour::grey;
          stack.push_back({site.callee, 0});
        }
      }
    }
    return true;
  }

  void check_inplace_arguments() {
    std::vector<uint32_t> seen(calls_.size(), 0);
    std::vector<uint32_t> stack;
    uint32_t stamp = 0;
    uint64_t steps = 0;
    for (size_t f = 0; f < calls_.size(); ++f) {
      const Function& function = module_.functions[f];
      for (const CallSite& site : calls_[f]) {
        const auto arguments = module_.operands(function.code[site.instruction]);
        const Function& callee = module_.functions[site.callee];
        for (size_t a = 0; a < arguments.size(); ++a) {
          if (callee.inplace[a] == 0 || !arguments[a].is(RefKind::tensor)) continue;
          // Does the callee, or what it calls, name this tensor itself?
          ++stamp;
          stack.assign(1, site.callee);
          seen[site.callee] = stamp;
          while (!stack.empty()) {
            const uint32_t g = stack.back();
            stack.pop_back();
            steps += 1 + calls_[g].size();
            if (steps > kMostSteps)
              return report_.add(ErrorCode::NestingLimit, "module",
                                 "too many calls with in-place arguments to check");
            if (std::binary_search(tensors_[g].begin(), tensors_[g].end(), arguments[a].index())) {
              report_.add(
                  ErrorCode::Alias, function, site.instruction,
                  fmt::format("@{} is handed over in place to '{}', and '{}' uses it by name",
                              module_.strings[module_.tensors[arguments[a].index()].name],
                              module_.strings[callee.name],
                              module_.strings[module_.functions[g].name]));
              break;
            }
            for (const CallSite& inner : calls_[g])
              if (seen[inner.callee] != stamp) {
                seen[inner.callee] = stamp;
                stack.push_back(inner.callee);
              }
          }
        }
      }
    }
  }

  const Module& module_;
  Report& report_;
  std::vector<std::vector<CallSite>> calls_;    // per function
  std::vector<std::vector<uint32_t>> tensors_;  // per function, sorted: those it names itself
};

}  // namespace

void check_calls(const Module& module, Report& report) { CallGraph(module, report).check(); }

}  // namespace trek::isa::verifier
