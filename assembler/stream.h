// The tokens that the parsers see: those of files, with macros, repetitions and arguments in place.
//
// A stack of frames, each a lexer over a part of a text with the names that mean something there. The
// tokens of the innermost frame come first; at its end the parser leaves it (finish_frame) and goes on
// outside. Bodies are replayed from their text, so expansion needs no memory but what it produces.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "assembler/lexer.h"
#include "assembler/names.h"
#include "assembler/reporter.h"
#include "assembler/source.h"
#include "assembler/value.h"

namespace trek::assembler {

inline constexpr size_t kMaxFrames = 64;  // includes, macros and repetitions within each other
inline constexpr uint32_t kMaxExpanded = uint32_t{1}
                                         << 17;  // statements from macros and repetitions
inline constexpr uint32_t kMaxArguments = uint32_t{1} << 19;  // readings of arguments

struct Environment;
using Scope = std::shared_ptr<Environment>;

// What was written for a macro's parameter, and where its names mean something.
struct Argument {
  TextSpan span;
  Scope scope;
  uint32_t expansion = 0;
};

// The names of an expansion: a macro's parameters, a repetition's variable, constants defined within.
struct Environment {
  Scope parent;
  std::vector<std::pair<std::string_view, std::variant<Value, Argument>>> names;
};

class TokenStream {
 public:
  // Gives the text that a substitution stands for; reports and gives nothing where it has none.
  class Substituter {
   public:
    virtual std::optional<std::string> substitution(const TextSpan& span) = 0;

   protected:
    ~Substituter() = default;
  };

  TokenStream(const SourceManager& sources, Reporter& reporter, Texts& texts)
      : sources_(sources), reporter_(reporter), texts_(texts) {}
  void set_substituter(Substituter* substituter) { substituter_ = substituter; }

  std::optional<std::string> substitute(const TextSpan& span) {
    return substituter_->substitution(span);
  }

  const Token& peek(size_t ahead = 0);
  Token next();
  bool at(TokenKind kind) { return peek().is(kind); }
  bool accept(TokenKind kind);
  // Splits '%name' behind an operand into the operator '%' and what follows.
  void split_percent();

  // What a frame's text is: a file, the plain body of a function or a test, or an expansion.
  enum class FrameKind : uint8_t { file, body, macro, repetition, argument };
  void push(FrameKind kind, const TextSpan& span, Scope scope, uint32_t expansion);
  struct Repetition {
    std::string_view name;
    Wide value = 0;
    Wide until = 0;
    Wide step = 1;
    isa::SourceRange where;
  };
  // Repeats a span; the caller has made sure that it is wanted at least once.
  void push_repetition(const TextSpan& span, const Repetition& repetition);
  // At the end of the innermost frame: its next repetition, or the frame outside.
  void finish_frame();
  size_t depth() const { return frames_.size(); }
  FrameKind kind() const { return top_->kind; }
  bool is_open_file(uint32_t file) const;
  // Whether what is read stands in the source as it will stand in a disassembly.
  bool is_plain() const { return top_->plain; }
  // Counts a statement; false when expansions have made too many, which it reports once.
  bool spend();
  // Counts a reading of an argument; false, reported once, when there are too many. Arguments that
  // name arguments twice would be read exponentially often.
  bool spend_argument();
  bool is_exhausted() const { return arguments_ > kMaxArguments; }
  // Leaves all frames: nothing more can be understood.
  void abandon();
  // Whether the text that is read has been left so: blocks are open then for no fault of theirs.
  bool is_abandoned() const { return abandoned_; }

  const Scope& scope() const { return top_->scope; }
  uint32_t expansion() const { return top_->expansion; }
  uint32_t file() const { return top_->lexer.file(); }
  isa::SourceRange where(const Token& token) const {
    return {file(), token.line, token.column, token.length};
  }
  std::string_view slice(uint32_t begin, uint32_t end) const {
    return top_->lexer.text().substr(begin, end - begin);
  }
  // The end of the last token that was taken.
  uint32_t last_end() const { return top_->last_end; }

  // Right behind a '{' that was taken: its body. See Lexer::skip_block.
  bool skip_block(TextSpan& body, bool in_declaration = false);
  // The text up to the next ',' outside brackets or to the end of the line; false if it is empty.
  bool take_argument(TextSpan& span);
  std::string_view text_of(const TextSpan& span) const {
    return sources_.text(span.file).substr(span.begin, span.end - span.begin);
  }

 private:
  struct Ahead {
    Token token;
    Lexer::Place behind;
  };
  struct Frame {
    FrameKind kind = FrameKind::file;
    bool plain = false;
    Lexer lexer;
    Scope scope;
    uint32_t expansion = 0;
    uint32_t last_end = 0;
    Lexer::Place behind;  // of the last token that was taken
    Ahead ahead[3];
    size_t begin = 0;  // of what is ahead
    size_t count = 0;
    TextSpan span;
    Repetition repetition;
    Scope outer;  // of a repetition
    uint32_t outer_expansion = 0;
  };
  Token fetch(Frame& frame);
  void compose(Frame& frame, Token& token);
  void start_repetition(Frame& frame);
  void pop();
  static void forget_ahead(Frame& frame);

  const SourceManager& sources_;
  Reporter& reporter_;
  Texts& texts_;
  Substituter* substituter_ = nullptr;
  std::vector<std::unique_ptr<Frame>> frames_;
  Frame* top_ = nullptr;  // frames_.back()
  uint32_t expanded_ = 0;
  uint32_t arguments_ = 0;
  bool abandoned_ = false;
};

}  // namespace trek::assembler
