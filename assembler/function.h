// Function bodies: instructions, regions, calls.
#pragma once

#include "assembler/instruction.h"
#include "assembler/statements.h"

namespace trek::assembler {

// What is known of an instruction's source beside its place: for problems that the verifier finds.
struct InstructionSource {
  uint32_t length = 0;
  uint32_t expansion = 0;
};

class FunctionParser final : public StatementHandler {
 public:
  FunctionParser(Core& core, Expressions& expressions, Statements& statements)
      : core_(core),
        expressions_(expressions),
        statements_(statements),
        scopes_(core),
        operands_(core, expressions, scopes_),
        instructions_(core, expressions, operands_, scopes_) {}

  // Parses the body of a function that has been begun, whose parameters have these names.
  struct Body {
    uint32_t function = 0;
    std::vector<Name> parameters;
    Token opener;
    TextSpan span;
    Scope scope;
    uint32_t expansion = 0;
    bool plain = false;
    bool is_closed = true;
  };
  void parse(const Body& body);
  // By function, then instruction.
  const std::vector<std::vector<InstructionSource>>& instruction_sources() const {
    return sources_;
  }
  Instructions& instructions() { return instructions_; }

  Outcome statement() override;
  Outcome close(const Token& brace) override;
  void abandon() override;
  void comment(std::string_view text) override;
  void trailing(std::string_view text) override;
  bool constant(std::string_view, std::string_view) override { return false; }

 private:
  // A region that is open.
  struct Region {
    isa::Opcode opcode = isa::Opcode::Loop;
    Token opener;
    std::vector<Name> names;  // of its results
    std::vector<isa::Ref> results;
    std::vector<isa::Type> types;  // of what it yields, where known
    bool typed = false;            // of an `if`: its first region has yielded
    bool yielded = false;
    bool broken = false;  // something in it failed; its results have no value
    size_t carried = 0;   // the number of values it yields
  };

  Outcome parse_statement(const Token& first);
  bool parse_results();
  bool parse_mnemonic(Token& word);
  Outcome parse_keyword(const Token& word, bool& taken);
  Outcome parse_loop(const Token& word);
  Outcome parse_while(const Token& word);
  Outcome parse_if(const Token& word);
  Outcome parse_yield(const Token& word);
  Outcome parse_return(const Token& word);
  Outcome parse_call(const Token& word);
  Outcome unknown_instruction(const Token& mnemonic);
  bool parse_carried();
  bool open_region(Region region, std::span<const Name> inside);
  Outcome open_else(Region region);
  void finish_region(Region& region);
  bool parse_values(std::vector<Operand>& values, TokenKind stop);
  bool resolve_values(std::span<const Operand> values, std::span<const isa::Type> types,
                      std::vector<isa::Ref>& refs);
  bool check_arguments(const isa::Function& callee, std::string_view name, const Token& at);
  Outcome refused();
  void record(const Token& first);
  void flush_comments();

  Core& core_;
  Expressions& expressions_;
  Statements& statements_;
  Scopes scopes_;
  Operands operands_;
  Instructions instructions_;

  uint32_t function_ = 0;
  std::vector<Region> regions_;
  bool returned_ = false;
  std::vector<std::vector<InstructionSource>> sources_;

  // The statement at hand.
  std::vector<Name> results_;
  std::vector<Name> carried_names_;
  std::vector<Operand> values_;
  std::vector<isa::Ref> refs_;
  std::vector<isa::Ref> destinations_;
  // Comments and blank lines that wait for the instruction after them.
  std::string pending_;
  bool has_pending_ = false;
};

}  // namespace trek::assembler
