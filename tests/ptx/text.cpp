#include "tests/ptx/text.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstring>
#include <map>
#include <unordered_map>

namespace trek::ptx {
namespace {

bool begins_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' ||
         c == '.';
}
bool is_in_name(char c) {
  return begins_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0 || c == ':';
}

struct Token {
  enum Kind : uint8_t { end, name, number, mark };
  Kind kind = end;
  std::string_view text;
  uint32_t line = 0;
};

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  tokens.reserve(text.size() / 5);
  uint32_t line = 1;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (std::isspace(static_cast<unsigned char>(c)) != 0 || c == '\0') {
      ++i;
    } else if (c == '/' && i + 1 < text.size() && text[i + 1] == '/') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '/' && i + 1 < text.size() && text[i + 1] == '*') {
      const size_t close = text.find("*/", i);
      if (close == std::string_view::npos) throw TextError(line, "a comment that does not end");
      line += static_cast<uint32_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(i),
                                               text.begin() + static_cast<std::ptrdiff_t>(close),
                                               '\n'));
      i = close + 2;
    } else if (c == '"') {
      const size_t close = std::min(text.find('"', i + 1), text.size() - 1);
      tokens.push_back({Token::mark, text.substr(i, close - i + 1), line});
      i = close + 1;
    } else if (begins_name(c)) {
      size_t end = i + 1;
      while (end < text.size() && is_in_name(text[end])) ++end;
      // A label's colon is no part of it; those of shared::cta are.
      if (text[end - 1] == ':') --end;
      tokens.push_back({Token::name, text.substr(i, end - i), line});
      i = end;
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      size_t end = i + 1;
      while (end < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '.'))
        ++end;
      tokens.push_back({Token::number, text.substr(i, end - i), line});
      i = end;
    } else {
      tokens.push_back({Token::mark, text.substr(i, 1), line});
      ++i;
    }
  }
  tokens.push_back({Token::end, {}, line});
  return tokens;
}

// A number as 64 bits: of 0f and 0d the float's.
int64_t number_of(const Token& token) {
  std::string_view digits = token.text;
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0f") || digits.starts_with("0F") ||
      digits.starts_with("0d") || digits.starts_with("0D")) {
    digits.remove_prefix(2);
    base = 16;
  }
  if (digits.ends_with('U')) digits.remove_suffix(1);
  uint64_t value = 0;
  const auto got = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (got.ec != std::errc() || got.ptr != digits.data() + digits.size())
    throw TextError(token.line, "not a number: " + std::string(token.text));
  return static_cast<int64_t>(value);
}

uint32_t bytes_of_type(const Token& type) {
  static const std::map<std::string_view, uint32_t> kBytes = {
      {".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2},
      {".s16", 2}, {".f16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4},
      {".f32", 4}, {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8}};
  const auto found = kBytes.find(type.text);
  if (found == kBytes.end()) throw TextError(type.line, "not a type: " + std::string(type.text));
  return found->second;
}

Class class_of_type(const Token& type) {
  if (type.text == ".pred") return Class::predicate;
  return bytes_of_type(type) == 8 ? Class::wide : Class::word;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : tokens_(tokens_of(text)) {}

  ModuleText read() {
    while (peek().kind != Token::end) read_top();
    return std::move(module_);
  }

 private:
  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
  }
  Token take() { return tokens_[next_ < tokens_.size() - 1 ? next_++ : next_]; }
  bool take_if(std::string_view text) {
    if (peek().text != text) return false;
    ++next_;
    return true;
  }
  void expect(std::string_view text) {
    if (!take_if(text))
      throw TextError(peek().line, "'" + std::string(text) + "' expected, not '" +
                                       std::string(peek().text) + "'");
  }
  void skip_to(std::string_view text) {
    while (peek().kind != Token::end && peek().text != text) ++next_;
    expect(text);
  }

  void read_top() {
    const Token token = peek();
    if (token.text == ".version" || token.text == ".address_size") {
      next_ += 2;
    } else if (token.text == ".target") {
      ++next_;
      module_.target = take().text;
      while (take_if(",")) ++next_;
    } else if (token.text == ".visible" || token.text == ".weak" || token.text == ".extern" ||
               token.text == ".common") {
      ++next_;
    } else if (token.text == ".func" || token.text == ".entry") {
      read_function();
    } else if (token.text == ".global" || token.text == ".const" || token.text == ".shared") {
      module_.variables.push_back(read_variable());
      expect(";");
    } else if (token.text == ".file") {
      next_ += 3;
      while (take_if(",")) ++next_;
    } else if (token.text == ".section") {
      skip_to("}");
    } else {
      throw TextError(token.line, "'" + std::string(token.text) + "' outside of a function");
    }
  }

  // .space .align n .type name[bytes] = {...}; the space is the next token.
  Declared read_variable() {
    Declared variable;
    variable.space = take().text.substr(1);
    if (take_if(".align")) variable.align = static_cast<uint32_t>(number_of(take()));
    const uint32_t size = bytes_of_type(take());
    variable.align = std::max(variable.align, size);
    variable.name = take().text;
    variable.bytes = size;
    if (take_if("[")) {
      variable.bytes =
          peek().kind == Token::number ? size * static_cast<uint32_t>(number_of(take())) : 0;
      expect("]");
    }
    if (take_if("=")) read_content(variable, size);
    return variable;
  }
  void read_content(Declared& variable, uint32_t size) {
    variable.content.assign(variable.bytes, std::byte{0});
    const bool is_list = take_if("{");
    uint32_t at = 0;
    do {
      const bool is_negative = take_if("-");
      const Token number = take();
      const int64_t value = is_negative ? -number_of(number) : number_of(number);
      if (at + size > variable.bytes) throw TextError(number.line, "more values than places");
      std::memcpy(variable.content.data() + at, &value, size);
      at += size;
    } while (is_list && take_if(","));
    if (is_list) expect("}");
  }

  std::vector<uint32_t> read_parameters() {
    std::vector<uint32_t> parameters;
    expect("(");
    while (!take_if(")")) {
      parameters.push_back(add_variable(read_variable()));
      take_if(",");
    }
    return parameters;
  }
  // A variable of the function, seen to the end of the scope.
  uint32_t add_variable(Declared variable) {
    uint32_t& bytes =
        variable.space == "local" ? function_->local_bytes : function_->parameter_bytes;
    variable.at = (bytes + variable.align - 1) / variable.align * variable.align;
    bytes = variable.at + variable.bytes;
    const auto number = static_cast<uint32_t>(function_->variables.size());
    scopes_.back().variables[variable.name] = number;
    function_->variables.push_back(std::move(variable));
    return number;
  }

  void read_function() {
    FunctionText function;
    function_ = &function;
    scopes_.assign(1, {});
    labels_.clear();
    function.is_kernel = take().text == ".entry";
    function.line = peek().line;
    if (peek().text == "(") function.results = read_parameters();
    function.name = take().text;
    if (peek().text == "(") function.parameters = read_parameters();
    while (peek().text.starts_with('.')) {
      if (take().text == ".maxntid") {
        function.most_threads = 1;
        do function.most_threads *= static_cast<uint32_t>(number_of(take()));
        while (take_if(","));
      } else {
        while (peek().kind == Token::number || peek().text == ",") ++next_;
      }
    }
    if (take_if(";")) return;  // declared; defined elsewhere in the text
    expect("{");
    read_scope();
    function.labels_at_end = std::move(labels_);
    module_.functions.push_back(std::move(function));
  }

  struct Scope {
    std::unordered_map<std::string_view, uint32_t> names;  // of registers
    std::vector<std::pair<std::string_view, uint32_t>> ranges;
    std::unordered_map<std::string_view, uint32_t> variables;
  };

  // Statements to the closing brace.
  void read_scope() {
    scopes_.emplace_back();
    uint32_t most = function_->parameter_bytes;
    while (!take_if("}")) {
      if (peek().kind == Token::end) throw TextError(peek().line, "a function that does not end");
      if (take_if("{")) {
        const uint32_t before = function_->parameter_bytes;
        read_scope();
        most = std::max(most, function_->parameter_bytes);
        function_->parameter_bytes = before;
      } else {
        read_in_function();
      }
      most = std::max(most, function_->parameter_bytes);
    }
    function_->parameter_bytes = most;
    scopes_.pop_back();
  }

  void read_in_function() {
    const Token token = peek();
    if (token.text == ".reg") {
      read_registers();
    } else if (token.text == ".local" || token.text == ".param" || token.text == ".shared") {
      Declared variable = read_variable();
      if (variable.space == "shared")
        module_.variables.push_back(variable);
      else
        add_variable(std::move(variable));
      expect(";");
    } else if (token.text == ".pragma") {
      skip_to(";");
    } else if (token.text == ".loc") {
      next_ += 4;
      while (take_if(",")) next_ += 2;
    } else if (token.text == ";") {
      ++next_;
    } else if (peek(1).text == ":") {
      labels_.push_back(token.text);
      next_ += 2;
    } else {
      read_statement();
    }
  }

  void read_registers() {
    ++next_;
    const Class of = class_of_type(take());
    do {
      const std::string_view name = take().text;
      const auto first = static_cast<uint32_t>(function_->registers.size());
      uint32_t count = 1;
      if (take_if("<")) {
        count = static_cast<uint32_t>(number_of(take()));
        expect(">");
        scopes_.back().ranges.emplace_back(name, first);
      } else {
        scopes_.back().names[name] = first;
      }
      function_->registers.insert(function_->registers.end(), count, of);
    } while (take_if(","));
    expect(";");
  }

  // The register of a name, or -1.
  int64_t find_register(std::string_view name) const {
    for (size_t i = scopes_.size(); i-- > 0;) {
      if (const auto found = scopes_[i].names.find(name); found != scopes_[i].names.end())
        return found->second;
      const size_t digits = name.find_last_not_of("0123456789") + 1;
      if (digits == name.size()) continue;
      for (const auto& [prefix, first] : scopes_[i].ranges) {
        if (prefix != name.substr(0, digits)) continue;
        uint32_t number = 0;
        std::from_chars(name.data() + digits, name.data() + name.size(), number);
        return first + number;
      }
    }
    return -1;
  }

  // The variable of a name, or -1.
  int64_t find_variable(std::string_view name) const {
    for (size_t i = scopes_.size(); i-- > 0;) {
      const auto found = scopes_[i].variables.find(name);
      if (found != scopes_[i].variables.end()) return found->second;
    }
    return -1;
  }

  Written read_simple() {
    Written written;
    const bool is_negated = take_if("!");
    const bool is_negative = take_if("-");
    const Token token = take();
    if (token.kind == Token::number) {
      written.kind = Written::number;
      written.value = is_negative ? -number_of(token) : number_of(token);
      return written;
    }
    if (token.kind != Token::name)
      throw TextError(token.line, "an operand expected, not '" + std::string(token.text) + "'");
    written.is_negated = is_negated;
    written.name = token.text;
    if (token.text == "_") return written;
    if (const int64_t reg = find_register(token.text); reg >= 0) {
      written.kind = Written::reg;
      written.index = static_cast<uint32_t>(reg);
      written.of = function_->registers[written.index];
    } else if (const int64_t variable = find_variable(token.text); variable >= 0) {
      written.kind = Written::variable;
      written.index = static_cast<uint32_t>(variable);
    } else {
      written.kind = token.text.starts_with('%') ? Written::special : Written::symbol;
    }
    return written;
  }

  // One of the operands that commas separate.
  void read_operand(Statement& statement) {
    const size_t before = statement.operands.size();
    if (take_if("{")) {
      do statement.operands.push_back(read_simple());
      while (take_if(","));
      expect("}");
    } else if (take_if("[")) {
      Written address = read_simple();
      address.is_address = true;
      while (peek().text == "+" || peek().text == "-") {
        const bool adds = take().text == "+";
        const bool is_negative = take_if("-");
        const int64_t value = number_of(take());
        address.value += adds != is_negative ? value : -value;
      }
      statement.operands.push_back(address);
      if (take_if(",")) {
        statement.groups.push_back(1);
        const size_t inner = statement.operands.size();
        expect("{");
        do statement.operands.push_back(read_simple());
        while (take_if(","));
        expect("}");
        expect("]");
        statement.groups.push_back(static_cast<uint8_t>(statement.operands.size() - inner));
        return;
      }
      expect("]");
    } else {
      do statement.operands.push_back(read_simple());
      while (take_if("|"));
    }
    statement.groups.push_back(static_cast<uint8_t>(statement.operands.size() - before));
  }

  void read_statement() {
    Statement statement;
    statement.labels = std::move(labels_);
    labels_.clear();
    if (take_if("@")) statement.guard = read_simple();
    statement.line = peek().line;
    statement.opcode = take().text;
    if (statement.opcode.starts_with("call")) {
      read_call(statement);
    } else if (peek().text != ";") {
      do read_operand(statement);
      while (take_if(","));
    }
    expect(";");
    function_->statements.push_back(std::move(statement));
  }

  void read_call(Statement& statement) {
    const auto read_variables = [&](std::vector<uint32_t>& variables) {
      expect("(");
      while (!take_if(")")) {
        const Token name = take();
        const int64_t number = find_variable(name.text);
        if (number < 0) throw TextError(name.line, std::string(name.text) + " is not declared");
        variables.push_back(static_cast<uint32_t>(number));
        take_if(",");
      }
    };
    if (peek().text == "(") {
      read_variables(statement.results);
      expect(",");
    }
    statement.callee = take().text;
    if (take_if(",")) read_variables(statement.arguments);
    if (peek().text != ";")
      throw TextError(statement.line, "calls of addresses are not known here");
  }

  std::vector<Token> tokens_;
  size_t next_ = 0;
  ModuleText module_;
  FunctionText* function_ = nullptr;
  std::vector<Scope> scopes_;
  std::vector<std::string_view> labels_;
};

}  // namespace

ModuleText read_text(std::string_view text) { return Reader(text).read(); }

}  // namespace trek::ptx
