// Embedded tests: what is bound, and what must come out.
#pragma once

#include <unordered_set>

#include "assembler/initial_data.h"
#include "assembler/statements.h"

namespace trek::assembler {

class TestParser final : public StatementHandler {
 public:
  TestParser(Core& core, Statements& statements, InitialDataParser& data)
      : core_(core), statements_(statements), data_(data) {}

  struct Body {
    uint32_t test = 0;
    Token opener;
    TextSpan span;
    Scope scope;
    uint32_t expansion = 0;
    bool is_closed = true;
  };
  void parse(const Body& body);

  Outcome statement() override;
  Outcome close(const Token&) override { return Outcome::done; }
  void abandon() override {}
  void comment(std::string_view) override {}
  void trailing(std::string_view) override {}
  bool constant(std::string_view, std::string_view) override { return false; }

 private:
  Outcome parse_trap();
  bool parse_target(isa::Ref& target, isa::Type& type, bool expected);

  Core& core_;
  Statements& statements_;
  InitialDataParser& data_;
  uint32_t test_ = 0;
  std::unordered_set<uint32_t> taken_[2];  // targets that are given, and expected
};

}  // namespace trek::assembler
