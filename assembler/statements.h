// The statement loop: goes from statement to statement, through expansions, and on after an error.
//
// What all places share is done here: comments, blocks, `.include .const .macro .repeat .if .error`
// and macro calls. The rest is the handler's: declarations at top level, instructions in a function,
// bindings in a test.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "assembler/core.h"
#include "assembler/expression.h"

namespace trek::assembler {

enum class Outcome : uint8_t {
  done,    // the statement's end comes next
  opened,  // it ended with the '{' of a block, or in another way that lets the next one follow
  failed,  // reported; the loop goes on at the next statement
};

class StatementHandler {
 public:
  virtual Outcome statement() = 0;
  // The '}' of a block that the handler opened, already taken.
  virtual Outcome close(const Token& brace) = 0;
  // A block of the handler whose '}' is missing: reported.
  virtual void abandon() = 0;
  // A line that is a comment, or blank ("").
  virtual void comment(std::string_view text) = 0;
  // A comment at the end of a statement's line.
  virtual void trailing(std::string_view text) = 0;
  // A constant that has been defined; whether the handler lists it in the debug section, where
  // spellings may then use it.
  virtual bool constant(std::string_view name, std::string_view text) = 0;

 protected:
  ~StatementHandler() = default;
};

class Statements {
 public:
  Statements(Core& core, Expressions& expressions) : core_(core), expressions_(expressions) {}

  // Runs the statements of the innermost frame, and leaves it.
  void run(StatementHandler& handler);
  // The handler has taken the '{' of a block.
  void open_block(const Token& opener);
  std::vector<std::string_view> macro_names() const;
  bool include(const std::string& path, const isa::SourceRange& where);

 private:
  struct Block {
    Token opener;
    isa::SourceRange where;
    size_t depth = 0;  // of frames
    bool is_condition = false;
  };
  struct Parameter {
    Token name;
    Argument fallback;
    bool has_fallback = false;
  };
  struct Macro {
    std::vector<Parameter> parameters;
    TextSpan body;
    Scope scope;
    isa::SourceRange where;
  };

  void newline(StatementHandler& handler);
  Outcome statement(StatementHandler& handler);
  Outcome close(StatementHandler& handler);
  void finish(StatementHandler& handler, Outcome outcome, uint32_t begin);
  void recover(uint32_t begin);
  void end_frame(StatementHandler& handler);

  Outcome parse_include();
  Outcome parse_const(StatementHandler& handler);
  void define_constant(const Token& name, const Value& value, std::string text,
                       StatementHandler& handler);
  Outcome parse_macro();
  bool parse_parameters(Macro& macro);
  Outcome parse_repeat();
  Outcome parse_if(const Token& directive);
  Outcome parse_else_chain(bool taken);
  Outcome parse_error();
  Outcome call_macro(const Macro& macro, StatementHandler& handler);
  bool take_arguments(const Macro& macro, const Token& name, Environment& environment);
  bool take_body(TextSpan& body);
  bool is_nested_too_deep(const isa::SourceRange& where);

  Core& core_;
  Expressions& expressions_;
  std::unordered_map<std::string_view, Macro> macros_;
  std::vector<Block> blocks_;
};

}  // namespace trek::assembler
