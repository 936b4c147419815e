// Assembling small sources in tests.
#pragma once

#include <string>

#include <catch2/catch.hpp>

#include "assembler/assemble.h"
#include "assembler/diagnostics.h"
#include "isa/builder.h"

namespace trek::tests {

// A source that must assemble.
inline Assembly assembled(const std::string& text, const AssembleOptions& options = {}) {
  Assembly assembly = assemble_text("test.trek", ".trek 1.0\n" + text, options);
  INFO(render(assembly.problems, assembly.sources));
  REQUIRE(assembly.ok());
  return assembly;
}

// A body of `main` with a few tensors at hand.
inline std::string in_main(const std::string& body) {
  return ".input @x f32[2,3]\n.output @y f32[2,3]\n.state @w f32[3,3] = 0\n.param $p f32 = 1.5\n"
         ".func main() {\n" +
         body + "\n}\n";
}

// The codes of a source's problems, one word each.
inline std::string codes(const std::string& text, const AssembleOptions& options = {}) {
  const Assembly assembly = assemble_text("test.trek", ".trek 1.0\n" + text, options);
  std::string out;
  for (const isa::Problem& problem : assembly.problems) {
    if (!out.empty()) out += ' ';
    out += isa::code(problem.code);
  }
  return out;
}

inline const isa::Function& main_of(const Assembly& assembly) {
  const isa::Function* main = assembly.module.find_function("main");
  REQUIRE(main != nullptr);
  return *main;
}

// The value of a constant expression as a real.
inline double real_of(const std::string& expression) {
  const Assembly assembly = assembled(".param $v f64 = " + expression + "\n.func main() {\n}\n");
  return isa::constant_real(assembly.module.constants[assembly.module.params[0].value]);
}

inline int64_t integer_of(const std::string& expression) {
  const Assembly assembly = assembled(".param $v i64 = " + expression + "\n.func main() {\n}\n");
  return isa::constant_integer(assembly.module.constants[assembly.module.params[0].value]);
}

}  // namespace trek::tests
