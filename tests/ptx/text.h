// PTX text as statements: what is written, with names resolved to registers, symbols and labels of a function.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trek::ptx {

// What is wrong with a module's text.
class TextError : public std::runtime_error {
 public:
  TextError(uint32_t line, const std::string& what)
      : std::runtime_error("line " + std::to_string(line) + ": " + what) {}
};

enum class Class : uint8_t { predicate, word, wide };

// An operand as it is written.
struct Written {
  enum Kind : uint8_t { none, reg, number, variable, symbol, special };
  Kind kind = none;
  bool is_address = false;  // in brackets
  bool is_negated = false;  // !%p
  Class of = Class::word;   // of a register
  uint32_t index = 0;       // of a register or a variable, among the function's
  int64_t value = 0;        // of a number; of an address what is added
  std::string_view name;    // of a symbol (of the module, or a label), or of a special register
};

struct Statement {
  std::string_view opcode;
  uint32_t line = 0;
  Written guard;                  // none: always
  std::vector<Written> operands;  // vectors taken apart
  std::vector<uint8_t> groups;    // how many of them each comma separates
  // Of a call, with the function's variables that are passed.
  std::string_view callee;
  std::vector<uint32_t> arguments;
  std::vector<uint32_t> results;
  std::vector<std::string_view> labels;  // that stand before it
};

// A variable of any space, or a parameter.
struct Declared {
  std::string_view name;
  std::string_view space;  // "param", "local", "shared", "global", "const"
  uint32_t align = 1;
  uint32_t bytes = 0;
  uint32_t at = 0;                 // of param, local and shared: where
  std::vector<std::byte> content;  // of global and const
};

struct FunctionText {
  std::string_view name;
  bool is_kernel = false;
  uint32_t line = 0;
  uint32_t most_threads = 1024;
  std::vector<Declared> variables;   // of the local and the parameter space
  std::vector<uint32_t> parameters;  // of them
  std::vector<uint32_t> results;
  std::vector<Class> registers;
  std::vector<Statement> statements;
  std::vector<std::string_view> labels_at_end;
  uint32_t local_bytes = 0;
  uint32_t parameter_bytes = 0;
};

struct ModuleText {
  std::string_view target;
  std::vector<Declared> variables;
  std::vector<FunctionText> functions;
};

// `text` must outlive what is returned. Throws TextError.
ModuleText read_text(std::string_view text);

}  // namespace trek::ptx
