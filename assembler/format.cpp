#include "assembler/format.h"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "assembler/lexer.h"

namespace trek {
namespace {

using namespace assembler;

// Longer names do not take part in the column of '='.
constexpr size_t kWidestName = 12;

// A line as it will be: its code without indentation, and its comment.
struct Line {
  int indent = 0;
  std::string code;
  std::string_view comment;
  // Widths of what neighbours align: the names before '=' of a definition, the directive before a
  // declared name. 0 where the line has none.
  size_t definition = 0;
  size_t declaration = 0;
  bool defines_several = false;
  bool is_blank() const { return code.empty() && comment.empty(); }
};

bool is_name(TokenKind kind) {
  return kind == TokenKind::tensor || kind == TokenKind::vector || kind == TokenKind::scalar;
}

bool is_opening(TokenKind kind) {
  return kind == TokenKind::left_paren || kind == TokenKind::left_bracket ||
         kind == TokenKind::left_brace;
}

bool is_closing(TokenKind kind) {
  return kind == TokenKind::right_paren || kind == TokenKind::right_bracket ||
         kind == TokenKind::right_brace;
}

bool ends_operand(TokenKind kind) {
  return kind == TokenKind::word || kind == TokenKind::number || kind == TokenKind::string ||
         is_name(kind) || is_closing(kind);
}

bool is_operator(TokenKind kind) { return kind >= TokenKind::bang && kind <= TokenKind::or_or; }

class Formatter {
 public:
  Formatter(const SourceManager& sources, uint32_t file)
      : text_(sources.text(file)),
        file_(file),
        lexer_(text_, {file, 0, static_cast<uint32_t>(text_.size()), 1, 0}) {}

  isa::Result<std::string> format() {
    read_lines();
    if (!problems_.empty()) return std::move(problems_);
    align(&Line::definition);
    align(&Line::declaration);
    return write();
  }

 private:
  struct Piece {
    Token token;
    std::string_view text;
  };
  struct Bracket {
    TokenKind kind;
    isa::SourceRange where;
    bool is_tight;  // of a brace: data or a substitution, not a block
  };

  isa::SourceRange where(const Token& token) const {
    return {file_, token.line, token.column, token.length};
  }

  void fail(isa::ErrorCode code, const isa::SourceRange& range, std::string message) {
    isa::Problem problem;
    problem.code = code;
    problem.message = std::move(message);
    problem.where = range;
    problems_.push_back(std::move(problem));
  }

  void read_lines() {
    std::vector<Piece> pieces;
    for (;;) {
      const Token token = lexer_.next();
      if (token.is(TokenKind::invalid)) {
        fail(token.error, where(token),
             token.error == isa::ErrorCode::UnterminatedString
                 ? "a string without its closing quote"
                 : "a byte that no token begins with");
        continue;
      }
      if (!token.is(TokenKind::newline) && !token.is(TokenKind::end)) {
        pieces.push_back({token, whole_text(token)});
        continue;
      }
      add_line(pieces, token.text);
      pieces.clear();
      if (token.is(TokenKind::end)) break;
    }
    for (const Bracket& bracket : brackets_)
      fail(isa::ErrorCode::Unclosed, bracket.where,
           fmt::format("{} is not closed", describe(bracket.kind)));
  }

  // A name with the substitutions that are glued to it is one piece.
  std::string_view whole_text(const Token& token) {
    bool open = token.open;
    while (open) {
      Lexer::Place place = lexer_.place();
      ++place.offset;
      lexer_.set(place);
      TextSpan body;
      if (!lexer_.skip_block(body)) {
        fail(isa::ErrorCode::Unclosed, where(token), "a substitution without its '}'");
        break;
      }
      place = lexer_.place();
      while (place.offset < text_.size() && is_name_byte(text_[place.offset])) ++place.offset;
      lexer_.set(place);
      open = place.offset < text_.size() && text_[place.offset] == '{';
    }
    return text_.substr(token.offset, lexer_.place().offset - token.offset);
  }

  void add_line(const std::vector<Piece>& pieces, std::string_view comment) {
    Line line;
    line.comment = comment;
    line.indent = indent_of(pieces);
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0 && wants_blank(pieces, i)) line.code += ' ';
      line.code += pieces[i].text;
      track(pieces, i);
    }
    measure(pieces, line);
    if (line.is_blank() && (lines_.empty() || lines_.back().is_blank())) return;
    lines_.push_back(std::move(line));
  }

  // Two blanks per open brace; a line that goes on within parentheses or brackets has two more.
  int indent_of(const std::vector<Piece>& pieces) const {
    size_t left = brackets_.size();
    for (const Piece& piece : pieces) {
      if (!is_closing(piece.token.kind) || left == 0) break;
      --left;
    }
    const auto open = std::span(brackets_).first(left);
    const auto braces = std::count_if(
        open.begin(), open.end(), [](const Bracket& b) { return b.kind == TokenKind::left_brace; });
    const bool continues = !open.empty() && open.back().kind != TokenKind::left_brace;
    return static_cast<int>(2 * (braces + (continues ? 1 : 0)));
  }

  void track(const std::vector<Piece>& pieces, size_t i) {
    const Token& token = pieces[i].token;
    if (is_opening(token.kind)) {
      const TokenKind before = i == 0 ? TokenKind::newline : pieces[i - 1].token.kind;
      const bool tight = before == TokenKind::assign || before == TokenKind::comma ||
                         is_opening(before) || is_operator(before);
      brackets_.push_back({token.kind, where(token), tight});
    } else if (is_closing(token.kind)) {
      const auto opening = static_cast<TokenKind>(static_cast<int>(token.kind) - 1);
      if (brackets_.empty() || brackets_.back().kind != opening)
        return fail(isa::ErrorCode::UnexpectedToken, where(token),
                    fmt::format("{} closes nothing", describe(token)));
      brackets_.pop_back();
    }
  }

  bool inside(TokenKind kind) const { return !brackets_.empty() && brackets_.back().kind == kind; }

  // Whether a blank stands between piece i - 1 and piece i of a line.
  bool wants_blank(const std::vector<Piece>& pieces, size_t i) const {
    return reads_better_apart(pieces, i) || would_merge(pieces[i - 1], pieces[i]);
  }

  // Whether punctuation that stood apart from what follows would be read as another token beside it:
  // `= =`, `% x`.
  static bool would_merge(const Piece& left, const Piece& right) {
    if (!right.token.spaced || (!is_operator(left.token.kind) && !left.token.is(TokenKind::assign)))
      return false;
    const std::string glued = fmt::format("{}{}", left.text, right.text);
    Lexer lexer(glued, {0, 0, static_cast<uint32_t>(glued.size()), 1, 0});
    const Token token = lexer.next();
    return token.kind != left.token.kind || token.length != left.text.size();
  }

  // Between an operator and its operands the author's choice holds: `1/255`, `I + 1`. What is chosen
  // must be chosen again where it is read as `spaced`.
  bool reads_better_apart(const std::vector<Piece>& pieces, size_t i) const {
    const Token& left = pieces[i - 1].token;
    const Token& right = pieces[i].token;
    if (right.is(TokenKind::comma) || right.is(TokenKind::right_paren) ||
        right.is(TokenKind::right_bracket))
      return false;
    if (left.is(TokenKind::left_paren) || left.is(TokenKind::left_bracket)) return false;
    if (left.is(TokenKind::left_brace) || right.is(TokenKind::right_brace)) {
      const bool empty = left.is(TokenKind::left_brace) && right.is(TokenKind::right_brace);
      return !empty && !brackets_.empty() && !brackets_.back().is_tight && right.spaced;
    }
    if (left.is(TokenKind::comma)) return !inside(TokenKind::left_bracket);
    if (left.is(TokenKind::assign) || right.is(TokenKind::assign))
      return is_definition(pieces, left.is(TokenKind::assign) ? i - 1 : i);
    if (right.is(TokenKind::left_paren) || right.is(TokenKind::left_bracket))
      return !left.is(TokenKind::word) && (!is_operator(left.kind) || right.spaced);
    if (right.is(TokenKind::bang) && ends_operand(left.kind)) return right.spaced;
    if (left.is(TokenKind::bang)) return right.spaced;
    if (is_operator(left.kind)) return is_binary(pieces, i - 1) && right.spaced;
    if (is_operator(right.kind))
      return right.spaced || (i + 1 < pieces.size() && wants_blank(pieces, i + 1));
    return true;
  }

  static bool is_binary(const std::vector<Piece>& pieces, size_t i) {
    return i > 0 && ends_operand(pieces[i - 1].token.kind);
  }

  // Whether the '=' of piece i defines something, rather than giving an attribute its value.
  bool is_definition(const std::vector<Piece>& pieces, size_t i) const {
    if (i == 0) return true;
    if (!pieces[i - 1].token.is(TokenKind::word)) return true;
    return pieces[0].token.is(TokenKind::directive) && !inside(TokenKind::left_paren);
  }

  void measure(const std::vector<Piece>& pieces, Line& line) const {
    if (pieces.size() < 2) return;
    const Token& first = pieces[0].token;
    const bool is_register = first.is(TokenKind::vector) || first.is(TokenKind::scalar);
    if (is_register && pieces[1].token.is(TokenKind::assign) &&
        pieces[0].text.size() <= kWidestName)
      line.definition = pieces[0].text.size();
    line.defines_several = is_register && line.definition == 0;
    const bool declares =
        first.is(TokenKind::directive) &&
        (pieces[1].token.is(TokenKind::tensor) || pieces[1].token.is(TokenKind::scalar));
    if (declares) line.declaration = pieces[0].text.size();
  }

  // Pads what `width` measures to one column in runs of neighbouring lines. A definition of several
  // registers stands in its run as it is.
  void align(size_t Line::* width) {
    const auto belongs = [&](const Line& line) {
      return line.*width > 0 || (width == &Line::definition && line.defines_several);
    };
    for (size_t begin = 0; begin < lines_.size(); ++begin) {
      if (!belongs(lines_[begin])) continue;
      size_t end = begin;
      size_t widest = 0;
      while (end < lines_.size() && belongs(lines_[end]) &&
             lines_[end].indent == lines_[begin].indent)
        widest = std::max(widest, lines_[end++].*width);
      for (size_t i = begin; i < end; ++i)
        if (lines_[i].*width > 0)
          lines_[i].code.insert(lines_[i].*width, widest - lines_[i].*width, ' ');
      begin = end - 1;
    }
  }

  // Comments of neighbouring lines begin in one column, two blanks behind the longest.
  std::string write() const {
    std::string out;
    const auto trails = [&](size_t i) {
      return i < lines_.size() && !lines_[i].code.empty() && !lines_[i].comment.empty();
    };
    const auto width = [&](size_t i) {
      return static_cast<size_t>(lines_[i].indent) + lines_[i].code.size();
    };
    size_t column = 0;
    for (size_t i = 0; i < lines_.size(); ++i) {
      const Line& line = lines_[i];
      if (line.is_blank()) {
        if (i + 1 < lines_.size()) out += '\n';
        continue;
      }
      if (trails(i) && (i == 0 || !trails(i - 1))) {
        column = 0;
        for (size_t k = i; trails(k); ++k) column = std::max(column, width(k) + 2);
      }
      out.append(static_cast<size_t>(line.indent), ' ');
      out += line.code;
      if (trails(i)) out.append(column - width(i), ' ');
      append_comment(out, line.comment);
      out += '\n';
    }
    return out;
  }

  // A blank behind the ';', unless what follows is a rule of signs.
  static void append_comment(std::string& out, std::string_view comment) {
    if (comment.empty()) return;
    const size_t text = comment.find_first_not_of(';');
    const bool is_glued = text != std::string_view::npos && is_name_byte(comment[text]);
    out += comment.substr(0, std::min(text, comment.size()));
    if (is_glued) out += ' ';
    if (text != std::string_view::npos) out += comment.substr(text);
  }

  std::string_view text_;
  uint32_t file_;
  Lexer lexer_;
  isa::Problems problems_;
  std::vector<Bracket> brackets_;
  std::vector<Line> lines_;
};

}  // namespace

isa::Result<std::string> format_source(const SourceManager& sources, uint32_t file) {
  return Formatter(sources, file).format();
}

}  // namespace trek
