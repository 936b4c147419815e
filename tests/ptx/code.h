// A PTX module as the interpreter executes it: instructions whose registers are slots of a warp, one after the
// other for all functions. read.h makes it from text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trek::ptx {

class Warp;
struct Instruction;

// Executes an instruction for the lanes of a mask.
using Handler = void (*)(Warp& warp, const Instruction& instruction, uint32_t lanes);

// An operand is a slot of its class (predicates, words of up to 32 bits, longs of 64) or, below zero, ~i of the
// module's constant i; a constant predicate is kFalse or kTrue.
using Operand = int32_t;
inline constexpr Operand kNoOperand = std::numeric_limits<int32_t>::min();
inline constexpr Operand kFalse = -1;
inline constexpr Operand kTrue = -2;

struct Instruction {
  Handler execute = nullptr;
  const Operand* operands = nullptr;
  int64_t value = 0;  // what is added to an address; else see the handler
  uint32_t target =
      0;              // of a branch the instruction, of a call its number among the module's calls
  uint32_t line = 0;  // in the text
  Operand guard = kTrue;  // the predicate under which it is executed
  bool guard_is_negated = false;
  uint8_t count = 1;           // elements of a vector
  uint8_t word_addresses = 0;  // a bit for each operand that is an address of 32 bits
  uint8_t added_to = 0;        // the address to which `value` is added
};

// Bytes of the parameter space of a function, which every lane has for itself.
struct Parameter {
  uint32_t at = 0;
  uint32_t bytes = 0;
};

struct Function {
  std::string name;
  uint32_t first = 0;  // instruction
  uint32_t end = 0;
  bool is_kernel = false;
  uint32_t predicates = 0;  // slots
  uint32_t words = 0;
  uint32_t longs = 0;
  uint32_t local_bytes = 0;
  uint32_t parameter_bytes = 0;  // its own parameters and results, and what it passes to others
  std::vector<Parameter> parameters;
  std::vector<Parameter> results;
  uint32_t most_threads = 1024;  // of a kernel's block
};

// A call: arguments and results, by their places in the caller's and the callee's parameter space.
struct Call {
  struct Passed {
    uint32_t from = 0;
    uint32_t to = 0;
    uint32_t bytes = 0;
  };
  uint32_t function = 0;
  uint32_t local_bytes = 0;  // of the caller
  std::vector<Passed> arguments;
  std::vector<Passed> results;
};

// A variable of the global or the constant space.
struct Variable {
  uint64_t address = 0;
  size_t bytes = 0;
};

// What the system has of a block's shared memory, in front of what a module declares: as on a Hopper.
inline constexpr uint32_t kReservedShared = 1024;

struct Module {
  std::vector<Instruction> instructions;
  std::vector<Function> functions;
  std::vector<Call> calls;
  std::vector<uint32_t> constant_words;  // 32 of each, as of a register
  std::vector<uint64_t> constant_longs;
  std::map<std::string, Variable> variables;
  uint32_t shared_bytes = 0;     // known before a launch
  uint32_t most_predicates = 0;  // of all functions
  uint32_t most_words = 0;
  uint32_t most_longs = 0;
  uint32_t most_parameter_bytes = 0;

  std::string text;
  std::vector<size_t> line_starts;  // in it

  // A line of the text without the blanks around it.
  std::string line(uint32_t number) const;
  const Function* find(const std::string& name) const;
  const Function& function_of(uint32_t instruction) const;
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = delete;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module() = default;

 private:
  friend class Builder;
  std::vector<std::unique_ptr<Operand[]>> operand_blocks_;
};

}  // namespace trek::ptx
