// The top level of a source: declarations, functions and tests.
//
// Bodies of functions and tests are set aside and parsed when everything is declared, so that these may
// stand in any order.
#pragma once

#include "assembler/function.h"
#include "assembler/initial_data.h"
#include "assembler/statements.h"
#include "assembler/test_block.h"
#include "assembler/types.h"

namespace trek::assembler {

class Declarations final : public StatementHandler {
 public:
  Declarations(Core& core, Expressions& expressions, Statements& statements,
               FunctionParser& functions)
      : core_(core),
        expressions_(expressions),
        statements_(statements),
        functions_(functions),
        data_(core, expressions, functions.instructions()),
        tests_(core, statements, data_) {}

  // Parses a file that is in the innermost frame, then the bodies and initialisers.
  void parse();

  Outcome statement() override;
  Outcome close(const Token&) override { return Outcome::done; }
  void abandon() override {}
  void comment(std::string_view text) override;
  void trailing(std::string_view text) override;
  bool constant(std::string_view name, std::string_view text) override;

 private:
  // An initialiser that waits: the builder wants them together.
  struct Initialiser {
    isa::Ref tensor;
    InitialData data;
    uint32_t expansion = 0;
  };

  Outcome parse_version();
  Outcome parse_param();
  Outcome parse_tensor(isa::Role role);
  Outcome parse_function();
  Outcome parse_test();
  bool parse_parameters(std::vector<Name>& names, std::vector<isa::Type>& types,
                        std::vector<bool>& inplace);
  bool parse_result_types(std::vector<isa::Type>& types);
  bool parse_data(uint32_t tensor, const isa::Type& type, isa::Role role);
  std::optional<isa::SourceRange> suspect(const TextSpan& body) const;
  bool take_body(TextSpan& span, const Token& opener, std::string_view what);
  bool is_new(const std::unordered_map<std::string_view, NamedPlace>& names, const Token& token,
              std::string_view name);
  void add_item(isa::Debug::ItemKind kind, size_t index, std::string_view comment = "");
  void add_initialisers();

  Core& core_;
  Expressions& expressions_;
  Statements& statements_;
  FunctionParser& functions_;
  InitialDataParser data_;
  TestParser tests_;
  bool has_version_ = false;  // the first statement, which is to give the version, has been seen
  bool has_version_item_ = false;  // an included file may give the version too
  std::vector<Initialiser> initialisers_;
  std::vector<FunctionParser::Body> bodies_;
  std::vector<TestParser::Body> test_bodies_;
};

}  // namespace trek::assembler
