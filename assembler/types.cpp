#include "assembler/types.h"

#include <fmt/format.h>

namespace trek::assembler {

using isa::ErrorCode;

namespace {

bool parse_dtype(Core& core, Expressions& expressions, isa::DType& dtype) {
  if (core.stream.at(TokenKind::left_brace) && expressions.enter_argument()) {
    const bool ok = parse_dtype(core, expressions, dtype);
    return expressions.leave_argument() && ok;
  }
  const Token word = core.stream.peek();
  const auto found = word.is(TokenKind::word) ? isa::dtype_from_name(word.text) : std::nullopt;
  if (!found) {
    if (!word.is(TokenKind::word)) return core.unexpected("a type such as f32[2,3]");
    std::vector<std::string_view> names;
    for (int code = 1; code < isa::kDTypeCount; ++code)
      names.push_back(isa::name(static_cast<isa::DType>(code)));
    return core.fail(ErrorCode::UnknownName, word,
                     fmt::format("no element type is named '{}'", word.text.substr(0, 80)),
                     suggest(word.text, names));
  }
  core.stream.next();
  dtype = *found;
  return true;
}

}  // namespace

bool parse_type(Core& core, Expressions& expressions, ParsedType& parsed) {
  parsed = {};
  const Token first = core.stream.peek();
  isa::Type& type = parsed.type;
  if (!parse_dtype(core, expressions, type.dtype)) return false;
  parsed.where = core.range_from(first);
  type.scalar = !core.stream.accept(TokenKind::left_bracket);
  if (type.scalar) return true;
  const InBrackets brackets(core);
  core.skip_newlines();
  int rank = 0;
  while (!core.stream.at(TokenKind::right_bracket)) {
    const auto dim = expressions.parse_integer("a dimension");
    if (!dim) return false;
    parsed.spellings.push_back(expressions.spelling());
    if (++rank <= isa::kMaxRank) type.shape.push_back(*dim);
    core.skip_newlines();
    if (!core.stream.accept(TokenKind::comma)) break;
    core.skip_newlines();
  }
  if (!core.expect(TokenKind::right_bracket, "',' or ']'")) return false;
  parsed.where = core.range_from(first);
  if (rank > isa::kMaxRank)
    return core.fail(
        ErrorCode::ShapeLimit, parsed.where,
        fmt::format("a shape of {} dimensions: a tensor has at most {}", rank, isa::kMaxRank));
  if (!type.shape.checked_elements())
    return core.fail(ErrorCode::ShapeLimit, parsed.where,
                     fmt::format("{}: dimensions are at least 0 and elements at most {}",
                                 type.text(), isa::kMaxElements));
  return true;
}

}  // namespace trek::assembler
