// The module: what a program is, in memory.
//
// A Module is plain data, close to its file format (isa/codec.h) so that reading one is checking it.
// Instructions are fixed-size records; what they refer to is a 32-bit Ref, kept in one array of words.
// Control flow is structured and flat: `loop`, `while`, `if` and `else` open a region, `yield` closes
// it, `return` closes the function. Everything about a module that is not a matter of its meaning
// (register names, places in the source, comments, how a constant was spelt) is in Debug.
//
// A Module that verify() (isa/verifier.h) has accepted satisfies every rule of ops.def; engines take
// only such modules and do not check again. Builder (isa/builder.h) makes one instruction by
// instruction.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "isa/ops.h"
#include "isa/result.h"
#include "isa/types.h"

namespace trek::isa {

inline constexpr uint32_t kVersionMajor = 1;
inline constexpr uint32_t kVersionMinor = 0;
inline constexpr int kMaxNesting = 64;                 // regions within a function
inline constexpr uint32_t kMaxIndex = (1u << 28) - 1;  // entries in any one table of a module

// What an operand, a result or an attribute names.
enum class RefKind : uint8_t {
  none = 0,      // an optional operand or attribute that is not given
  tensor = 1,    // Module::tensors: @name
  param = 2,     // Module::params: $name
  value = 3,     // Function::values: %name or $name, as its type says
  constant = 4,  // Module::constants
  list = 5,      // Module::lists: a count, then as many Refs
  string = 6,    // Module::strings
  function = 7,  // Module::functions
  number = 8,    // the index itself: a flag, a choice, a dtype, an opcode
};

struct Ref {
  uint32_t bits = 0;

  constexpr Ref() = default;
  constexpr Ref(RefKind kind, uint32_t index) : bits(static_cast<uint32_t>(kind) << 28 | index) {}
  constexpr RefKind kind() const { return static_cast<RefKind>(bits >> 28); }
  constexpr uint32_t index() const { return bits & kMaxIndex; }
  constexpr bool is(RefKind k) const { return kind() == k; }
  constexpr explicit operator bool() const { return bits != 0; }
  constexpr bool operator==(const Ref&) const = default;
};

// One instruction. Its results, operands and attributes, in this order, are the `results + operands +
// attributes` words at `first`. Operands stand in the order of the instruction's row, an optional one
// that is absent as none; every attribute of the row is present, in its order, absent ones as none (so
// there is one encoding of an instruction; a default is written as none).
struct Instruction {
  Opcode opcode = Opcode::Return;
  uint16_t results = 0;
  uint16_t operands = 0;
  uint16_t attributes = 0;
  uint32_t first = 0;
};
static_assert(sizeof(Instruction) == 12);

// A typed immediate. bits holds the value as i64, or as the IEEE bits of its type zero-extended.
struct Constant {
  DType dtype = DType::none;
  uint64_t bits = 0;
  bool operator==(const Constant&) const = default;
};
int64_t constant_integer(const Constant& constant);  // of an integer or bool constant
double constant_real(const Constant& constant);      // of a real constant, exact

// A register of a function: a tensor (%name) or a scalar ($name).
struct Value {
  uint32_t type = 0;  // index into Module::types
};

enum class Role : uint8_t {
  input = 1,   // given by the host before a run; read-only
  output = 2,  // starts as zeros; written by the program; read by the host after a run
  state = 3,   // starts as initialised; read and written; survives a run and can be saved
  data = 4,    // a constant of the module; read-only
  stream = 5,  // blocks that the host feeds while the program runs; read by `next` only
};
std::string_view name(Role role);

// Where the bytes of a tensor come from before a run, besides an initialiser instruction.
enum class DataSource : uint8_t {
  none = 0,      // zeros, or Module::init writes it
  embedded = 1,  // `offset` and the type's byte count in Module::data
  external = 2,  // a file, checked against its hash when it is loaded
};

struct External {
  uint32_t format = 0;    // string: "npy", "idx", "raw", "safetensors"
  uint32_t path = 0;      // string
  uint32_t member = 0;    // string: the tensor within a safetensors file, else ""
  uint64_t hash_low = 0;  // XXH3-128 of the tensor's bytes (not of the file)
  uint64_t hash_high = 0;
};

struct TensorDecl {
  uint32_t name = 0;  // string
  uint32_t type = 0;  // type
  Role role = Role::state;
  DataSource source = DataSource::none;
  uint64_t offset = 0;    // embedded: bytes into Module::data, a multiple of kDataAlignment
  uint32_t external = 0;  // external: index into Module::externals
};
inline constexpr uint64_t kDataAlignment = 64;

// A scalar that the host may set before a run.
struct Param {
  uint32_t name = 0;          // string
  DType dtype = DType::none;  // i64, f32, f64 or bool
  uint32_t value = 0;         // constant of that dtype: the default
};

// A parameter of a function is the value of the same index. `inplace` parameters (`%w!`) stand for a
// module tensor that the function may write.
struct Function {
  uint32_t name = 0;              // string
  uint32_t parameters = 0;        // values[0 .. parameters)
  std::vector<uint8_t> inplace;   // one flag per parameter
  std::vector<uint32_t> results;  // types
  std::vector<Value> values;      // in order of definition
  std::vector<Instruction> code;  // the last is `return`

  // A function without a name that does nothing.
  static Function returning();
};

// An embedded test: bindings, then what must come out, bit for bit.
struct TestBinding {
  Ref target;           // tensor or param
  uint64_t offset = 0;  // bytes into Module::data, of the target's type
};
struct Test {
  uint32_t name = 0;  // string
  std::vector<TestBinding> given;
  std::vector<TestBinding> expected;  // tensors; empty where a trap is expected
  TrapCode trap = TrapCode::None;
};

// A place in the source. Line 0: not known.
struct Location {
  uint32_t file = 0;  // index into Debug::files
  uint32_t line = 0;
  uint32_t column = 0;
  bool operator==(const Location&) const = default;
};

// What a person would miss in a disassembly. Every part may be empty.
struct Debug {
  struct FunctionNames {
    std::vector<uint32_t> values;  // strings, one per value; 0 ("") for a register without a name
  };
  struct FunctionLines {
    std::vector<Location> code;  // one per instruction
  };
  // A named constant of the source, as it was written.
  struct NamedConstant {
    uint32_t name = 0;  // string
    uint32_t text = 0;  // string: the expression
  };
  // The order of a file's items, comments and blank lines among them.
  enum class ItemKind : uint8_t {
    constant,
    tensor,
    param,
    function,
    test,
    comment,
    blank,
    version,  // the line that gives the ISA's version
  };
  struct Item {
    ItemKind kind = ItemKind::blank;
    uint32_t index =
        0;  // into constants here, tensors, params ... of the module; of a comment: string
    uint32_t comment = 0;  // string: the comment that ends the line, or ""
  };
  // A comment inside a function: lines before an instruction, or at the end of its line.
  struct CodeComment {
    uint32_t function = 0;
    uint32_t instruction = 0;
    bool trailing = false;
    uint32_t text = 0;  // string; several lines are separated by '\n', an empty one is a blank line
  };
  // How an operand, an attribute or a dimension was written, when as a constant expression.
  struct Spelling {
    enum class Where : uint8_t { instruction, tensor } where = Where::instruction;
    uint32_t function = 0;  // of an instruction
    uint32_t index = 0;     // instruction of the function, or tensor
    uint32_t slot = 0;      // word of the instruction, or dimension of the tensor's shape
    uint32_t element = 0;   // of a list
    uint32_t text = 0;      // string
  };

  std::vector<FunctionNames> names;  // one per function, or empty
  std::vector<FunctionLines> lines;  // one per function, or empty
  std::vector<std::string> files;    // source file names
  std::vector<std::string> sources;  // their texts, or empty
  std::vector<NamedConstant> constants;
  std::vector<Item> items;
  std::vector<CodeComment> comments;  // ascending by function, instruction, leading before trailing
  std::vector<Spelling> spellings;    // ascending by where, function, index, slot, element
};

// A section of a binary module that this build does not know and need not understand: it is carried
// from reading to writing (isa/codec_format.h).
struct UnknownSection {
  uint32_t id = 0;
  uint32_t alignment = 1;
  std::vector<std::byte> bytes;
};

struct Module {
  std::vector<std::string> strings{std::string()};  // [0] is ""
  std::vector<Type> types;
  std::vector<Constant> constants;
  std::vector<Ref> lists;  // a count (its bits), that many Refs, a count, ...
  std::vector<Ref> words;  // of the instructions
  std::vector<External> externals;
  std::vector<TensorDecl> tensors;
  std::vector<Param> params;
  std::vector<Function> functions;
  // One instruction per tensor that has an initialiser, in tensor order, then `return`.
  Function init = Function::returning();
  std::vector<Test> tests;
  std::vector<std::byte> data;
  Debug debug;
  std::vector<UnknownSection> unknown;  // ascending by id

  const std::string& string(uint32_t index) const { return strings[index]; }
  const Type& type(uint32_t index) const { return types[index]; }
  std::span<const Ref> results(const Instruction& instruction) const;
  std::span<const Ref> operands(const Instruction& instruction) const;
  std::span<const Ref> attributes(const Instruction& instruction) const;
  std::span<const Ref> list(Ref ref) const;
  // The type of what a Ref names: a tensor, a param, a value of `function`, or a constant (scalar).
  Type type_of(const Function& function, Ref ref) const;
  // The function named `name`, or null.
  const Function* find_function(std::string_view name) const;
};

}  // namespace trek::isa
