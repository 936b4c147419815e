// Which register a name means.
//
// A register is visible from its definition to the end of its region. A register that a macro or a
// repetition defines by a plain name is its own: it has a number apart from the same name outside; a
// name that an expansion does not define is looked up where it was called.
#pragma once

#include <vector>

#include "assembler/core.h"

namespace trek::assembler {

// A name in the source, and the expansion that it was read in.
struct Name {
  Token token;
  isa::SourceRange where;
  uint32_t expansion = 0;
};

struct Register {
  isa::Ref ref;  // none where its definition failed: reported there, silent here
  isa::SourceRange defined;
  bool live = false;
};

class Scopes {
 public:
  explicit Scopes(Core& core) : core_(core) {}

  void enter() { marks_.push_back(defined_.size()); }
  void leave();
  // Begins a function: nothing is visible but what it will define.
  void begin(uint32_t function);
  // The register that a %name or $name means, or null.
  const Register* find(const Name& name);
  // Makes a name mean a register; reports a name that is visible already. The register's name for the
  // debug section is made unique among the visible ones.
  bool define(const Name& name, isa::Ref ref);
  // Makes a name mean a register without a value, so that what uses it is passed over in silence; a name
  // that is visible stays as it is.
  void define_broken(const Name& name);
  // With sigils; the most recent thousand, for suggestions.
  std::vector<std::string_view> visible_names() const;

 private:
  // What is known of a name, by its number.
  struct Entry {
    Register meaning;
    uint32_t printed = 0;  // of a visible name: the name that its register has in the debug section
    uint32_t printing = 0;  // the visible registers that have this name there
    uint32_t string = 0;    // the module's string of this name, once it has one
    uint32_t suffix = 0;    // the last that an expansion's register of this name has got ...
    uint32_t suffixed = 0;  // ... in this function
  };
  Entry& entry(uint32_t number);
  uint32_t number_of(const Name& name, bool defining);
  void name_register(uint32_t number, isa::Ref ref, bool is_expanded);
  uint32_t free_name(uint32_t plain);

  Core& core_;
  uint32_t function_ = 0;
  std::vector<Entry> entries_;
  std::vector<uint32_t> defined_;  // numbers in order of definition
  std::vector<size_t> marks_;      // where regions begin in defined_
};

}  // namespace trek::assembler
