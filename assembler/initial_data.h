// Where a tensor's first bytes come from: a number, a list, a file, an initialiser instruction.
#pragma once

#include "assembler/instruction.h"

namespace trek::assembler {

// What numbers that fill make at most, all together: a few characters would otherwise fill a disk.
inline constexpr int64_t kMaxFillBytes = int64_t{1} << 28;

struct InitialData {
  enum class Kind : uint8_t { bytes, external, instruction, none };
  Kind kind = Kind::bytes;
  std::vector<std::byte> bytes;
  isa::External external;
  // An instruction that fills the tensor.
  const isa::OpInfo* op = nullptr;
  std::vector<isa::Ref> operands;
  std::vector<isa::Ref> attributes;
  isa::SourceRange where;
};

class InitialDataParser {
 public:
  InitialDataParser(Core& core, Expressions& expressions, Instructions& instructions)
      : core_(core), expressions_(expressions), instructions_(instructions) {}

  // The data at the next token for a tensor or scalar of `type`. Initialisers, and numbers as
  // initialisers, only where `may_generate`; `extern` only where `may_refer`, and without reading its
  // file, which gives Kind::none, where the data `is_supplied`.
  struct Allowed {
    bool may_generate = false;
    bool may_refer = false;
    bool is_supplied = false;
  };
  bool parse(const isa::Type& type, Allowed allowed, InitialData& data);

 private:
  bool parse_fill(const isa::Type& type, Allowed allowed, InitialData& data);
  bool make_fill(const isa::Type& type, const Value& value, const isa::SourceRange& where,
                 InitialData& data);
  bool parse_strings(std::vector<std::string_view>& texts, isa::SourceRange& where);
  bool parse_hex(const isa::Type& type, InitialData& data);
  bool parse_list(const isa::Type& type, InitialData& data);
  bool parse_groups(const isa::Type& type, std::vector<int64_t>& begins, InitialData& data);
  enum class File : uint8_t { embedded, external, supplied };
  bool parse_file(const Token& format, const isa::Type& type, File file, InitialData& data);
  bool parse_initialiser(const Token& word, const isa::OpInfo& op, const isa::Type& type,
                         Allowed allowed, InitialData& data);
  bool parse_element(isa::DType dtype, std::vector<std::byte>& bytes);
  bool close_group(const isa::Type& type, size_t depth, int64_t count, const Token& brace);

  Core& core_;
  Expressions& expressions_;
  Instructions& instructions_;
  int64_t filled_ = 0;  // bytes that numbers have made
};

// The little-endian bytes of an element.
void append_element(std::vector<std::byte>& bytes, isa::DType dtype, uint64_t bits);

}  // namespace trek::assembler
