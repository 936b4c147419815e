#include "assembler/lexer.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace trek::assembler;

namespace {

std::vector<Token> tokens_of(std::string_view text) {
  Lexer lexer(text, {0, 0, static_cast<uint32_t>(text.size()), 1, 0});
  std::vector<Token> tokens;
  do tokens.push_back(lexer.next());
  while (!tokens.back().is(TokenKind::end));
  return tokens;
}

std::vector<TokenKind> kinds_of(std::string_view text) {
  std::vector<TokenKind> kinds;
  for (const Token& token : tokens_of(text)) kinds.push_back(token.kind);
  return kinds;
}

}  // namespace

TEST_CASE("tokens carry line, column in bytes and text") {
  const auto tokens = tokens_of("%a = add\n  @x");
  REQUIRE(tokens.size() == 6);
  CHECK(tokens[0].text == "%a");
  CHECK(tokens[0].name() == "a");
  CHECK(tokens[2].column == 6);
  CHECK(tokens[4].line == 2);
  CHECK(tokens[4].column == 3);
  CHECK(tokens[4].first);
  CHECK_FALSE(tokens[1].first);
}

TEST_CASE("a mnemonic holds dots before letters only") {
  const auto tokens = tokens_of("gelu.tanh.grad relu. 1.0");
  CHECK(tokens[0].text == "gelu.tanh.grad");
  CHECK(tokens[1].text == "relu");
  CHECK(tokens[2].is(TokenKind::invalid));
}

TEST_CASE("a number takes signs behind its exponent and nowhere else") {
  CHECK(tokens_of("1e-3")[0].text == "1e-3");
  CHECK(tokens_of("0x1p-3")[0].text == "0x1p-3");
  CHECK(tokens_of("0x1e-3")[0].text == "0x1e");
  CHECK(tokens_of("1-3")[0].text == "1");
  CHECK(tokens_of("1_000.5")[0].text == "1_000.5");
}

TEST_CASE("a percent sign before a name is a register, before anything else an operator") {
  CHECK(kinds_of("%x")[0] == TokenKind::vector);
  CHECK(kinds_of("5 % 2")[1] == TokenKind::percent);
  CHECK(kinds_of("5%2")[1] == TokenKind::percent);
}

TEST_CASE("a comment is the text of the newline that it ends with") {
  const auto tokens = tokens_of("a ; one  \n; two\nb");
  CHECK(tokens[1].is(TokenKind::newline));
  CHECK(tokens[1].text == "; one");
  CHECK_FALSE(tokens[1].first);
  CHECK(tokens[2].text == "; two");
  CHECK(tokens[2].first);
  CHECK(tokens[3].text == "b");
}

TEST_CASE("a quote, a semicolon or a brace in a string does not end it") {
  const auto tokens = tokens_of(R"("a\"b;{}" x)");
  CHECK(tokens[0].is(TokenKind::string));
  CHECK(tokens[0].text == R"(a\"b;{})");
  CHECK(tokens[1].text == "x");
}

TEST_CASE("a string without its quote ends with its line") {
  const auto tokens = tokens_of("\"abc\nx");
  CHECK(tokens[0].is(TokenKind::invalid));
  CHECK(tokens[0].error == trek::isa::ErrorCode::UnterminatedString);
  CHECK(tokens[2].text == "x");
}

TEST_CASE("bytes outside ASCII are one invalid token per line") {
  const auto tokens = tokens_of("a \xC3\x97 \xFF\xFE b\nc");
  CHECK(tokens[1].is(TokenKind::invalid));
  CHECK(tokens[1].length == 2);
  CHECK(tokens[2].is(TokenKind::newline));
  CHECK(tokens[3].text == "c");
}

TEST_CASE("a byte order mark is passed over, and carriage returns are blanks") {
  const auto tokens = tokens_of("\xEF\xBB\xBF.trek 1.0\r\nx");
  CHECK(tokens[0].is(TokenKind::directive));
  CHECK(tokens[0].text == "trek");
  CHECK(tokens[0].column == 1);
  CHECK(tokens[3].line == 2);
}

TEST_CASE("every pair of operator bytes that is an operator is one token") {
  CHECK(kinds_of("** // << >> <= >= == != && || ->") ==
        std::vector{TokenKind::star_star, TokenKind::slash_slash, TokenKind::shift_left,
                    TokenKind::shift_right, TokenKind::less_equal, TokenKind::greater_equal,
                    TokenKind::equal, TokenKind::not_equal, TokenKind::and_and, TokenKind::or_or,
                    TokenKind::arrow, TokenKind::end});
}

TEST_CASE("a block's end is found past strings, comments and inner blocks") {
  const std::string_view text = "{ a { } \"}\" ; }\n }x";
  Lexer lexer(text, {0, 0, static_cast<uint32_t>(text.size()), 1, 0});
  lexer.next();
  TextSpan body;
  REQUIRE(lexer.skip_block(body));
  CHECK(text.substr(body.begin, body.end - body.begin) == " a { } \"}\" ; }\n ");
  const Token behind = lexer.next();
  CHECK(behind.text == "x");
  CHECK(behind.line == 2);
}

TEST_CASE("the search for a block's end stops at a line that cannot be in it") {
  const std::string_view text = "{ a\n.func b";
  Lexer lexer(text, {0, 0, static_cast<uint32_t>(text.size()), 1, 0});
  lexer.next();
  TextSpan body;
  CHECK_FALSE(lexer.skip_block(body, true));
  CHECK(lexer.next().text == "func");
}
