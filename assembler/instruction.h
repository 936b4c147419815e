// One instruction: its operands and attributes parsed by its row of ops.def, then given to the builder.
//
// Nothing here knows an instruction by name: rows say which attributes there are and of which kind, and
// what the operands may be. Immediates get their type when all operands are known.
#pragma once

#include <array>

#include "assembler/operands.h"

namespace trek::assembler {

// How a constant of an instruction was written; slots as in isa::Debug::Spelling, but counted from the
// first operand until the number of results is known.
struct PendingSpelling {
  uint32_t slot = 0;
  uint32_t element = 0;
  std::string_view text;
};

class Instructions {
 public:
  Instructions(Core& core, Expressions& expressions, Operands& operands, Scopes& scopes)
      : core_(core), expressions_(expressions), operand_parser_(operands), scopes_(scopes) {}

  // From behind the mnemonic to the end of the statement, appended to the builder's function. False where
  // that fails (reported, or silently behind an earlier failure); the names are then defined without a
  // value.
  bool parse(const Token& mnemonic, const isa::OpInfo& op, std::span<const Name> results);
  // An initialiser `name(...)` from behind the parenthesis: leading attributes may be positional. The
  // attributes come back in the order of the row; `shape`, `to` and `n` are filled in from the type.
  bool parse_initialiser(const Token& mnemonic, const isa::OpInfo& op, const isa::Type& type,
                         std::vector<isa::Ref>& operands, std::vector<isa::Ref>& attributes);
  // The range of the part of the instruction parsed last that a fault is about.
  isa::SourceRange range_of(const isa::Fault& fault) const;

  // Where a result goes: a tensor or an in-place parameter that exists, or none for a new register.
  isa::Ref destination(const Name& name);
  // Defines the names of an instruction that gave these results, checking count and sigils.
  bool define_results(const Token& mnemonic, std::string_view what, std::span<const Name> names,
                      std::span<const isa::Ref> results, std::span<const isa::Ref> destinations);
  void define_broken(std::span<const Name> names);
  // Records how an operand or attribute of the last instruction was written.
  void spell(const Operand& operand, uint32_t slot, uint32_t element = 0);
  void keep_spellings(uint32_t function);

 private:
  struct Attribute {
    bool given = false;
    bool is_list = false;
    isa::SourceRange where;
    Operand operand;        // of a single number
    size_t first_item = 0;  // of a list, in items_
    size_t items = 0;
    uint32_t number = 0;    // of a flag, dtype, choice or tail
    std::string_view text;  // of a string
  };

  bool parse_arguments();
  bool parse_argument();
  bool parse_named(const Token& name);
  bool parse_word(const Token& word, bool& taken);
  bool parse_value(size_t index);
  bool parse_list(Attribute& attribute);
  bool parse_item(Attribute& attribute);
  bool parse_dtype(Attribute& attribute);
  bool parse_choice(const isa::AttributeInfo& info, Attribute& attribute);
  bool parse_tail(const isa::AttributeInfo& info, Attribute& attribute);
  bool begin_attribute(size_t index, const Token& at);
  bool is_broken() const;
  bool arrange_operands();
  bool check_in_place(std::span<const Name> results);
  bool check_result_count(std::span<const Name> results);
  isa::DType element_type() const;
  isa::DType operand_type(size_t i, isa::DType t) const;
  bool resolve_operands(isa::DType t);
  bool resolve_attributes(isa::DType t);
  std::optional<isa::Ref> resolve_attribute(size_t i, isa::DType t);
  void reset(const Token& mnemonic, const isa::OpInfo& op);

  Core& core_;
  Expressions& expressions_;
  Operands& operand_parser_;
  Scopes& scopes_;

  // The instruction at hand.
  Token mnemonic_;
  isa::SourceRange mnemonic_range_;
  const isa::OpInfo* op_ = nullptr;
  bool in_place_ = false;
  std::vector<Operand> operands_;
  std::vector<Operand> optional_;  // by row of the operand, for those given by name
  std::array<Attribute, 8> attributes_;
  std::vector<Operand> items_;  // of list attributes
  std::vector<isa::Ref> operand_refs_;
  std::vector<isa::Ref> attribute_refs_;
  std::vector<isa::Ref> list_;
  std::vector<isa::Ref> destinations_;
  std::vector<isa::SourceRange> result_ranges_;
  std::vector<PendingSpelling> spellings_;
};

}  // namespace trek::assembler
