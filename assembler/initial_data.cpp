#include "assembler/initial_data.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <xxhash.h>

#include "assembler/data/data.h"

namespace trek::assembler {

using isa::ErrorCode;

namespace {

// An instruction that makes a tensor of nothing but numbers.
bool is_initialiser(const isa::OpInfo& op) {
  const bool makes = op.attribute("shape") >= 0 || op.attribute("n") >= 0;
  return makes && op.results.size() == 1 &&
         std::all_of(op.operands.begin(), op.operands.end(),
                     [](const isa::OperandInfo& o) { return o.form == isa::Form::scalar; });
}

std::vector<std::string_view> form_names() {
  std::vector<std::string_view> names{"npy", "idx", "raw", "safetensors", "hex", "extern"};
  for (const isa::OpInfo& op : isa::all_ops())
    if (is_initialiser(op)) names.push_back(op.mnemonic);
  return names;
}

// How the module names a file that the text of `file` names: from the folder of the module's own source,
// which is where a run looks for it.
std::string path_from_module(const SourceManager& sources, uint32_t file, std::string_view path) {
  const auto folder = [&](uint32_t of) {
    const std::string name = sources.folder(of);
    return std::filesystem::path(name.empty() ? "." : name);
  };
  std::error_code error;
  const auto between = std::filesystem::relative(folder(file), folder(0), error);
  const bool is_beside = path.starts_with('/') || error || between == "." || between.empty();
  return is_beside ? std::string(path) : (between / path).string();
}

}  // namespace

void append_element(std::vector<std::byte>& bytes, isa::DType dtype, uint64_t bits) {
  const auto size = static_cast<size_t>(isa::byte_size(dtype));
  std::byte element[8];
  for (size_t i = 0; i < size; ++i) element[i] = static_cast<std::byte>(bits >> (8 * i) & 0xFF);
  bytes.insert(bytes.end(), element, element + size);
}

bool InitialDataParser::parse(const isa::Type& type, Allowed allowed, InitialData& data) {
  const Token first = core_.stream.peek();
  data.where = core_.stream.where(first);
  if (first.is(TokenKind::left_brace) && !type.scalar) return parse_list(type, data);
  if (!first.is(TokenKind::word) || type.scalar) return parse_fill(type, allowed, data);
  if (first.text == "extern") {
    core_.stream.next();
    if (!allowed.may_refer)
      return core_.fail(ErrorCode::UnexpectedToken, first, "a test's data cannot be 'extern'");
    const Token format = core_.stream.peek();
    if (!core_.expect(TokenKind::word, "npy, idx, raw or safetensors")) return false;
    return parse_file(format, type, allowed.is_supplied ? File::supplied : File::external, data);
  }
  const bool is_call = core_.stream.peek(1).is(TokenKind::left_paren);
  if (is_call && is_data_format(first.text)) {
    core_.stream.next();
    return parse_file(first, type, File::embedded, data);
  }
  if (is_call && first.text == "hex") {
    core_.stream.next();
    return parse_hex(type, data);
  }
  if (is_call && !is_expression_word(first.text)) {
    core_.stream.next();
    const isa::OpInfo* op = isa::find_op(first.text);
    if (op != nullptr && is_initialiser(*op))
      return parse_initialiser(first, *op, type, allowed, data);
    return core_.fail(
        ErrorCode::UnknownName, first,
        fmt::format("no data form or initialiser is named '{}'", first.text.substr(0, 80)),
        suggest(first.text, form_names()));
  }
  return parse_fill(type, allowed, data);
}

// A number: every element. Of a state an instruction, so that the module stays small.
bool InitialDataParser::parse_fill(const isa::Type& type, Allowed allowed, InitialData& data) {
  const Token first = core_.stream.peek();
  const auto value = expressions_.parse();
  if (!value) return false;
  const isa::SourceRange where = core_.range_from(first);
  if (allowed.may_generate) return make_fill(type, *value, where, data);
  const Bits bits = to_bits(*value, type.dtype);
  if (!bits.bits)
    return core_.fail(bits.wrong_type ? ErrorCode::DataType : ErrorCode::InvalidNumber, where,
                      bits.error);
  if (type.bytes() > kMaxFillBytes - filled_)
    return core_.fail(
        ErrorCode::DataShape, where,
        fmt::format("a number that fills {} would embed {} bytes, and such fills embed "
                    "at most {}, {} already",
                    type.text(), type.bytes(), kMaxFillBytes, filled_),
        "a state is filled when the program starts");
  filled_ += type.bytes();
  std::vector<std::byte> element;
  append_element(element, type.dtype, *bits.bits);
  data.bytes.resize(static_cast<size_t>(type.bytes()));
  for (size_t i = 0; i < data.bytes.size(); i += element.size())
    std::memcpy(data.bytes.data() + i, element.data(), element.size());
  return true;
}

// The value is converted to the element type as by `cast`, which is what `fill` does.
bool InitialDataParser::make_fill(const isa::Type& type, const Value& value,
                                  const isa::SourceRange& where, InitialData& data) {
  const isa::OpInfo& op = isa::info(isa::Opcode::Fill);
  isa::DType dtype = natural_type(value);
  if (value.stated == isa::DType::none && dtype == isa::DType::f32 && type.dtype == isa::DType::f64)
    dtype = isa::DType::f64;
  if (dtype == isa::DType::none)
    return core_.fail(ErrorCode::DataType, where,
                      fmt::format("{} where numbers are wanted", describe(value)));
  const Bits bits = to_bits(value, dtype);
  if (!bits.bits) return core_.fail(ErrorCode::InvalidNumber, where, bits.error);
  data.kind = InitialData::Kind::instruction;
  data.op = &op;
  data.operands = {core_.build.constant(dtype, *bits.bits)};
  data.attributes.assign(op.attributes.size(), {});
  data.attributes[static_cast<size_t>(op.attribute("shape"))] =
      core_.build.integers(type.shape.dims());
  data.attributes[static_cast<size_t>(op.attribute("to"))] = isa::Builder::dtype(type.dtype);
  return true;
}

bool InitialDataParser::parse_element(isa::DType dtype, std::vector<std::byte>& bytes) {
  const Token first = core_.stream.peek();
  const auto value = expressions_.parse();
  if (!value) return false;
  const Bits bits = to_bits(*value, dtype);
  if (!bits.bits)
    return core_.fail(bits.wrong_type ? ErrorCode::DataType : ErrorCode::InvalidNumber,
                      core_.range_from(first), bits.error);
  append_element(bytes, dtype, *bits.bits);
  return true;
}

// A group at `depth` holds what lies below an index of that many axes.
bool InitialDataParser::close_group(const isa::Type& type, size_t depth, int64_t count,
                                    const Token& brace) {
  int64_t wanted = 1;
  for (int axis = static_cast<int>(depth) - 1; axis < type.shape.rank(); ++axis)
    wanted *= type.shape[axis];
  if (count == wanted) return true;
  return core_.fail(ErrorCode::DataShape, brace,
                    depth == 1
                        ? fmt::format("{} has {} elements, found {}", type.text(), wanted, count)
                        : fmt::format("braces {} deep in {} hold {} elements, found {}", depth,
                                      type.text(), wanted, count));
}

bool InitialDataParser::parse_list(const isa::Type& type, InitialData& data) {
  std::vector<int64_t> open;
  if (parse_groups(type, open, data)) return true;
  // What follows the list is understood again.
  TextSpan rest;
  for (size_t i = 0; i < open.size(); ++i) core_.stream.skip_block(rest, true);
  return false;
}

// `begins`: the count of elements before each group that is open.
bool InitialDataParser::parse_groups(const isa::Type& type, std::vector<int64_t>& begins,
                                     InitialData& data) {
  const InBrackets brackets(core_);
  const int64_t total = type.elements();
  const auto most_depth = static_cast<size_t>(std::max(type.shape.rank(), 1));
  int64_t count = 0;
  do {
    core_.skip_newlines();
    while (core_.stream.at(TokenKind::left_brace)) {
      const Token brace = core_.stream.next();
      begins.push_back(count);
      if (begins.size() > most_depth)
        return core_.fail(
            ErrorCode::DataShape, brace,
            fmt::format("braces nest {} deep at most for {}", most_depth, type.text()));
      core_.skip_newlines();
    }
    if (!core_.stream.at(TokenKind::right_brace)) {
      const Token first = core_.stream.peek();
      if (count == total)
        return core_.fail(ErrorCode::DataShape, first,
                          fmt::format("more elements than the {} of {}", total, type.text()));
      if (!parse_element(type.dtype, data.bytes)) return false;
      ++count;
    }
    core_.skip_newlines();
    while (!begins.empty() && core_.stream.at(TokenKind::right_brace)) {
      const Token brace = core_.stream.next();
      const int64_t held = count - begins.back();
      begins.pop_back();
      if (!close_group(type, begins.size() + 1, held, brace)) return false;
      if (!begins.empty()) core_.skip_newlines();
    }
  } while (!begins.empty() && core_.stream.accept(TokenKind::comma));
  return begins.empty() || core_.unexpected("',' or '}'");
}

// `("...", "...")`
bool InitialDataParser::parse_strings(std::vector<std::string_view>& texts,
                                      isa::SourceRange& where) {
  if (!core_.expect(TokenKind::left_paren)) return false;
  const InBrackets brackets(core_);
  core_.skip_newlines();
  const Token first = core_.stream.peek();
  do {
    core_.skip_newlines();
    const Token place = core_.stream.peek();
    const auto value = expressions_.parse();
    if (!value) return false;
    if (value->kind != Value::Kind::string)
      return core_.fail(ErrorCode::UnexpectedToken, core_.range_from(place),
                        "a text in quotes is wanted");
    texts.push_back(value->text);
    where = core_.range_from(first);
    if (core_.stream.last_end() <= first.offset) where = core_.range_from(place);
    core_.skip_newlines();
  } while (core_.stream.accept(TokenKind::comma));
  return core_.expect(TokenKind::right_paren, "',' or ')'");
}

// The bytes of all elements, two digits each, in any number of strings.
bool InitialDataParser::parse_hex(const isa::Type& type, InitialData& data) {
  std::vector<std::string_view> texts;
  isa::SourceRange where;
  if (!parse_strings(texts, where)) return false;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  for (std::string_view text : texts) {
    if (text.size() % 2 != 0)
      return core_.fail(ErrorCode::DataFormat, where,
                        "an odd number of hexadecimal digits in one string");
    for (size_t i = 0; i < text.size(); i += 2) {
      const int high = digit(text[i]);
      const int low = digit(text[i + 1]);
      if (high < 0 || low < 0)
        return core_.fail(ErrorCode::DataFormat, where,
                          fmt::format("'{}' is no byte in hexadecimal", text.substr(i, 2)));
      data.bytes.push_back(static_cast<std::byte>(high * 16 + low));
    }
  }
  if (static_cast<int64_t>(data.bytes.size()) == type.bytes()) return true;
  return core_.fail(
      ErrorCode::DataShape, where,
      fmt::format("{} has {} bytes, found {}", type.text(), type.bytes(), data.bytes.size()));
}

bool InitialDataParser::parse_file(const Token& format, const isa::Type& type, File file,
                                   InitialData& data) {
  if (!is_data_format(format.text))
    return core_.fail(ErrorCode::UnknownName, format,
                      fmt::format("no data format is named '{}'", format.text.substr(0, 80)),
                      suggest(format.text, {"npy", "idx", "raw", "safetensors"}));
  std::vector<std::string_view> texts;
  isa::SourceRange where;
  if (!parse_strings(texts, where)) return false;
  const size_t wanted = format.text == "safetensors" ? 2 : 1;
  if (texts.size() != wanted)
    return core_.fail(ErrorCode::UnexpectedToken, where,
                      wanted == 2 ? "'safetensors' takes a path and a tensor's name"
                                  : fmt::format("'{}' takes a path", format.text));
  const std::string_view member = wanted == 2 ? texts[1] : "";
  std::string path(texts[0]);
  if (path.find('\0') != std::string::npos)
    return core_.fail(ErrorCode::FileUnreadable, where, "a path with a zero byte");
  if (file == File::supplied) {
    data.kind = InitialData::Kind::none;
    return true;
  }
  if (!path.starts_with('/')) path = core_.sources.folder(core_.stream.file()) + path;
  auto array = read_data(format.text, path, member, type);
  if (!array) {
    for (isa::Problem problem : array.problems()) {
      problem.where = where;
      core_.reporter.add(std::move(problem), core_.stream.expansion());
    }
    return false;
  }
  if (file == File::embedded) {
    data.bytes = std::move(array->bytes);
    return true;
  }
  const XXH128_hash_t hash = XXH3_128bits(array->bytes.data(), array->bytes.size());
  data.kind = InitialData::Kind::external;
  data.external = {
      core_.build.string(format.text),
      core_.build.string(path_from_module(core_.sources, core_.stream.file(), texts[0])),
      core_.build.string(member), hash.low64, hash.high64};
  return true;
}

bool InitialDataParser::parse_initialiser(const Token& word, const isa::OpInfo& op,
                                          const isa::Type& type, Allowed allowed,
                                          InitialData& data) {
  core_.stream.next();
  if (!allowed.may_generate)
    return core_.fail(
        ErrorCode::NotWritable, word,
        fmt::format("'{}' is executed when the program starts: only a state can be initialised so",
                    word.text));
  data.kind = InitialData::Kind::instruction;
  data.op = &op;
  return instructions_.parse_initialiser(word, op, type, data.operands, data.attributes);
}

}  // namespace trek::assembler
