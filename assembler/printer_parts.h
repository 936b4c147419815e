// The parts of the printer: values, names, functions. Not for others to include.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "assembler/printer.h"
#include "assembler/printer_spelling.h"
#include "isa/codec_canonical.h"
#include "isa/module.h"

namespace trek::printer {

inline constexpr size_t kLineWidth = 100;

void append_number(std::string& out, uint64_t value);
void append_integer(std::string& out, int64_t value);
void append_quoted(std::string& out, std::string_view text);
void append_type(std::string& out, const isa::Type& type);
void append_indent(std::string& out, int depth);
// Several blank lines are one.
void append_blank_line(std::string& out);
// A comment as one line: with its ';', without bytes that would end it.
void append_comment(std::string& out, std::string_view comment);

// An element in a place that has its type already: `lr=0.1`, `{1, 2}`.
void append_element(std::string& out, isa::DType dtype, uint64_t bits);
// An immediate in a place that takes its type from how it is written: an integer is i64, a real is
// `real`, everything else says its type.
void append_immediate(std::string& out, const isa::Constant& constant,
                      isa::DType real = isa::DType::f32);
// The bytes of a tensor as a list, or in hexadecimal where there are many or a list would lose bits.
void append_data(std::string& out, const isa::Type& type, std::span<const std::byte> bytes,
                 int depth);

// The same where a lone number stands for all elements: in tests.
void append_uniform_data(std::string& out, const isa::Type& type, std::span<const std::byte> bytes,
                         int depth);

// The names of registers, with what is visible while a function is printed. A name is used where it is
// valid and no visible register has it; a register without one is called after its number.
class Names {
 public:
  Names(const isa::Module& module, bool use_debug);

  void begin_function(uint32_t function);
  void begin_region() { marks_.push_back(visible_.size()); }
  void end_region();
  // Names a register that is visible from here to the end of the innermost region.
  void define(uint32_t value);
  // Names the results of a region that is about to begin: they are visible once it has ended, so
  // inside it their names are free.
  void choose(std::span<const isa::Ref> results);
  void reveal(std::span<const isa::Ref> results);
  void append(std::string& out, uint32_t value) const;

 private:
  enum Sigil : uint8_t { kTensor = 1, kScalar = 2 };
  struct Chosen {
    uint32_t string = 0;  // 0: called after its number, with so many '_' behind
    uint32_t underscores = 0;
  };
  Sigil sigil(uint32_t value) const;
  bool take(uint32_t id, Sigil sigil);
  // The id of what a register without a name would be called, 0 where nobody has that name.
  uint32_t find_generated(uint32_t value, uint32_t underscores) const;

  const isa::Module& module_;
  const isa::Function* function_ = nullptr;
  const std::vector<uint32_t>* debug_ = nullptr;  // names of the function's values, or null
  bool use_debug_;
  std::vector<uint32_t> ids_;  // of a string: equal texts have equal ones; 0: not a name
  // Of names that a register without one could be given: v12 by its number, v12_ by its text.
  std::vector<uint32_t> id_of_number_;  // 0: nobody has it; empty where nobody has any
  std::unordered_map<std::string_view, uint32_t> id_of_text_;
  std::vector<uint8_t> taken_;  // by id: which sigils are visible with this name
  std::vector<Chosen> chosen_;  // by value
  struct Taken {
    uint32_t id;
    Sigil sigil;
  };
  std::vector<Taken> visible_;
  std::vector<size_t> marks_;
};

// Comments and spellings of instructions, which are asked for in ascending order, and of tensors.
class SourceForm {
 public:
  SourceForm(const isa::Module& module, const PrintOptions& options);
  SourceForm(const SourceForm&) = delete;
  SourceForm& operator=(const SourceForm&) = delete;
  ~SourceForm() = default;

  // What follows is about this instruction, or the one after it.
  void begin_instruction(uint32_t function, uint32_t instruction);
  // The text of a leading or trailing comment, empty where there is none.
  std::string_view comment(uint32_t function, uint32_t instruction, bool trailing) const;
  // How a constant of the instruction was written, empty where nothing is known.
  std::string_view spelling(uint32_t slot, uint32_t element) const;
  std::string_view dimension_spelling(uint32_t tensor, uint32_t axis) const;

 private:
  using Entry = std::vector<isa::Debug::Spelling>::const_iterator;
  std::string_view find(Entry begin, Entry end, uint32_t slot, uint32_t element) const;

  const isa::Module& module_;
  std::vector<isa::Debug::CodeComment> comments_;
  std::vector<isa::Debug::Spelling> spellings_;
  Entry tensors_;            // the first that is about a tensor
  size_t comments_at_ = 0;   // the first comment at or after the instruction
  size_t spellings_at_ = 0;  // the instruction's spellings
  size_t spellings_end_ = 0;
};

// Prints function `index`; `comment` ends its first line.
void print_function(std::string& out, const isa::Module& module, uint32_t index,
                    std::string_view comment, Names& names, SourceForm& form, Spellings& spellings);
// What stands behind the `=` of a tensor that the instruction initialises.
void print_initialiser(std::string& out, const isa::Module& module,
                       const isa::Instruction& instruction);

}  // namespace trek::printer
