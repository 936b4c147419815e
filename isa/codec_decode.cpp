// Reads a file as a module: the section table, then section by section, every count against the
// bytes that are there and every index against its table, then the comparison with the one legal
// encoding.
//
// The order matters for safety: a section is read only after those it refers to, data is only laid
// out again (in the comparison) after its offsets are known to be the canonical ones, and lists are
// only walked once each.
#include <algorithm>

#include <xxhash.h>

#include "isa/codec_parts.h"
#include "isa/convert.h"
#include "isa/verifier.h"

namespace trek::isa {
namespace {

using format::SectionId;

// ---- the file
// ------------------------------------------------------------------------------------

class FileReader {
 public:
  FileReader(std::span<const std::byte> file, DecodeStatus& status)
      : file_(file), status_(status) {}

  bool read(Sections& sections, std::vector<UnknownSection>& unknown) {
    if (!read_header() || !read_table()) return false;
    uint64_t end = sizeof(format::Header) + table_.size() * sizeof(format::SectionEntry);
    for (const format::SectionEntry& entry : table_) {
      if (!check_entry(entry, end)) return false;
      end = entry.offset + entry.size;
      const auto bytes =
          file_.subspan(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.size));
      if (XXH3_64bits(bytes.data(), bytes.size()) != entry.checksum)
        return status_.fail(ErrorCode::Checksum, place(entry),
                            "its bytes are not those that were written");
      if (format::find_section(entry.id) != nullptr)
        sections.emplace_back(entry.id, bytes);
      else
        unknown.push_back({entry.id, entry.alignment, {bytes.begin(), bytes.end()}});
    }
    if (end == file_.size()) return true;
    return status_.fail(ErrorCode::BadSection, "section table",
                        fmt::format("{} bytes follow the last section", file_.size() - end));
  }

 private:
  bool read_header() {
    const size_t known = std::min(file_.size(), format::kMagic.size());
    if (known == 0 || std::memcmp(file_.data(), format::kMagic.data(), known) != 0)
      return status_.fail(ErrorCode::BadMagic, "header",
                          file_.empty()
                              ? "the file is empty: a module begins with \\x89TREK"
                              : "this is not a Trek module: it does not begin with \\x89TREK");
    if (file_.size() < sizeof(format::Header)) return truncated(sizeof(format::Header));
    std::memcpy(&header_, file_.data(), sizeof header_);
    if (header_.major != kVersionMajor || header_.minor > kVersionMinor)
      return status_.fail(
          ErrorCode::UnsupportedVersion, "header",
          fmt::format("the module is of ISA version {}.{}, this build reads {}.0 to {}.{}",
                      header_.major, header_.minor, kVersionMajor, kVersionMajor, kVersionMinor));
    if (header_.file_size > file_.size()) return truncated(header_.file_size);
    if (header_.file_size == file_.size()) return true;
    return status_.fail(ErrorCode::BadSection, "header",
                        fmt::format("{} bytes follow the module's {}",
                                    file_.size() - header_.file_size, header_.file_size));
  }

  bool truncated(uint64_t wanted) {
    return status_.fail(ErrorCode::Truncated, "header",
                        fmt::format("the file has {} bytes of {}", file_.size(), wanted));
  }

  bool read_table() {
    const auto rest = file_.subspan(sizeof(format::Header));
    if (header_.sections > rest.size() / sizeof(format::SectionEntry))
      return status_.fail(
          ErrorCode::BadSection, "header",
          fmt::format("a table of {} sections does not fit into the file's {} bytes",
                      header_.sections, file_.size()));
    table_.resize(header_.sections);
    const size_t size = table_.size() * sizeof(format::SectionEntry);
    if (size > 0) std::memcpy(table_.data(), rest.data(), size);
    if (XXH3_64bits(table_.data(), size) == header_.checksum) return true;
    return status_.fail(ErrorCode::Checksum, "section table",
                        "its bytes are not those that were written");
  }

  static std::string place(const format::SectionEntry& entry) {
    const format::SectionInfo* known = format::find_section(entry.id);
    return known == nullptr ? fmt::format("section {}", entry.id)
                            : fmt::format("section '{}'", known->name);
  }

  // Everything an entry says, against the format and the file. `end` is where the one before ended.
  bool check_entry(const format::SectionEntry& entry, uint64_t end) {
    const auto bad = [&](std::string message) {
      return status_.fail(ErrorCode::BadSection, place(entry), std::move(message));
    };
    const format::SectionInfo* known = format::find_section(entry.id);
    if (entry.id <= last_id_)
      return bad(fmt::format("it follows section {}: ids ascend from 1", last_id_));
    last_id_ = entry.id;
    if (entry.flags > format::kMustUnderstand || entry.zero != 0)
      return bad(fmt::format("unknown flags {:#x}", entry.flags));
    if (known == nullptr && entry.flags == format::kMustUnderstand)
      return bad("this build does not know it, and the file says it must be understood");
    if (known != nullptr && (entry.flags != known->flags || entry.alignment != known->alignment))
      return bad(fmt::format("flags {} and alignment {} where the format has {} and {}",
                             entry.flags, entry.alignment, known->flags, known->alignment));
    if (!std::has_single_bit(entry.alignment) || entry.alignment > format::kMaxAlignment)
      return bad(fmt::format("alignment {} is no power of two up to {}", entry.alignment,
                             format::kMaxAlignment));
    const uint64_t offset = (end + entry.alignment - 1) / entry.alignment * entry.alignment;
    if (entry.offset != offset)
      return bad(fmt::format("it begins at {}, and belongs at {}", entry.offset, offset));
    if (entry.offset > file_.size() || entry.size > file_.size() - entry.offset)
      return bad(fmt::format("{} bytes at {} leave the file, which has {}", entry.size,
                             entry.offset, file_.size()));
    if (entry.size == 0) return bad("it is empty");
    return true;
  }

  std::span<const std::byte> file_;
  DecodeStatus& status_;
  format::Header header_{};
  std::vector<format::SectionEntry> table_;
  uint32_t last_id_ = 0;
};

// ---- the core sections
// ---------------------------------------------------------------------------

class CoreDecoder {
 public:
  CoreDecoder(const Sections& sections, Module& module, DecodeStatus& status)
      : sections_(sections), module_(module), status_(status) {}

  bool decode() {
    return strings() && types() && constants() && externals() && tensors() && params() &&
           functions() && lists() && instructions() && tests() && data();
  }

 private:
  SectionReader section(SectionId id) {
    return {format::find_section(static_cast<uint32_t>(id))->name, section_bytes(sections_, id),
            status_};
  }

  bool string_index(SectionReader& reader, uint32_t index) const {
    if (index < module_.strings.size()) return true;
    return reader.fail(
        fmt::format("string {} does not exist: there are {}", index, module_.strings.size()));
  }
  bool type_index(SectionReader& reader, uint32_t index) const {
    if (index < module_.types.size()) return true;
    return reader.fail(
        fmt::format("type {} does not exist: there are {}", index, module_.types.size()));
  }

  bool strings() {
    SectionReader reader = section(SectionId::strings);
    return reader.get_texts(module_.strings) && reader.at_end();
  }

  bool types() {
    SectionReader reader = section(SectionId::types);
    std::vector<format::TypeRecord> records;
    if (!reader.get_rest(records, "type")) return false;
    for (const format::TypeRecord& record : records) {
      const auto dtype = static_cast<DType>(record.dtype);
      const auto dims = std::span(record.dims).first(std::min<size_t>(record.rank, kMaxRank));
      const auto unused = std::span(record.dims).subspan(dims.size());
      const bool fits = record.dtype < kDTypeCount && kind(dtype) != DTypeKind::none &&
                        record.scalar <= 1 && record.rank <= kMaxRank && all_zero(record.zero) &&
                        all_zero(unused);
      if (!fits) return reader.fail(fmt::format("type {} is malformed", module_.types.size()));
      const Type type{dtype, record.scalar != 0, Shape(dims)};
      if (type.scalar ? record.rank != 0 || !is_scalar_type(dtype) : !type.shape.checked_elements())
        return reader.fail(fmt::format("type {} is {}{}, which does not exist",
                                       module_.types.size(), type.scalar ? "scalar " : "",
                                       type.text()));
      module_.types.push_back(type);
    }
    return true;
  }

  template <class Range>
  static bool all_zero(const Range& range) {
    return std::all_of(range.begin(), range.end(), [](auto value) { return value == 0; });
  }

  bool constants() {
    SectionReader reader = section(SectionId::constants);
    std::vector<format::ConstantRecord> records;
    if (!reader.get_rest(records, "constant")) return false;
    module_.constants.reserve(records.size());
    for (const format::ConstantRecord& record : records) {
      const auto dtype = static_cast<DType>(record.dtype);
      if (record.dtype >= kDTypeCount || kind(dtype) == DTypeKind::none || !all_zero(record.zero) ||
          !bits_fit(dtype, record.bits))
        return reader.fail(fmt::format("constant {} is malformed", module_.constants.size()));
      module_.constants.push_back({dtype, record.bits});
    }
    return true;
  }

  // Whether these are bits that a constant of this type has: in range, extended as the format says.
  static bool bits_fit(DType dtype, uint64_t bits) {
    if (is_real(dtype)) return byte_size(dtype) == 8 || bits >> (8 * byte_size(dtype)) == 0;
    const bool is_unsigned = kind(dtype) == DTypeKind::uint;
    return integer_to_bits(dtype, static_cast<int64_t>(bits), is_unsigned) == bits;
  }

  bool externals() {
    SectionReader reader = section(SectionId::externals);
    std::vector<format::ExternalRecord> records;
    if (!reader.get_rest(records, "external")) return false;
    for (const format::ExternalRecord& record : records) {
      for (uint32_t string : {record.format, record.path, record.member})
        if (!string_index(reader, string)) return false;
      if (record.zero != 0) return reader.fail("a padding field is not 0");
      module_.externals.push_back(
          {record.format, record.path, record.member, record.hash_low, record.hash_high});
    }
    return true;
  }

  bool tensors() {
    SectionReader reader = section(SectionId::tensors);
    std::vector<format::TensorRecord> records;
    if (!reader.get_rest(records, "tensor")) return false;
    for (const format::TensorRecord& record : records) {
      if (!string_index(reader, record.name) || !type_index(reader, record.type)) return false;
      if (name(static_cast<Role>(record.role)).empty() ||
          record.source > static_cast<uint8_t>(DataSource::external) || record.zero != 0)
        return reader.fail(fmt::format("tensor {} is malformed", module_.tensors.size()));
      const auto source = static_cast<DataSource>(record.source);
      if (source == DataSource::external && record.external >= module_.externals.size())
        return reader.fail(fmt::format("external {} does not exist: there are {}", record.external,
                                       module_.externals.size()));
      module_.tensors.push_back({record.name, record.type, static_cast<Role>(record.role), source,
                                 record.offset, record.external});
    }
    return true;
  }

  bool params() {
    SectionReader reader = section(SectionId::params);
    std::vector<format::ParamRecord> records;
    if (!reader.get_rest(records, "param")) return false;
    for (const format::ParamRecord& record : records) {
      if (!string_index(reader, record.name)) return false;
      if (record.value >= module_.constants.size())
        return reader.fail(fmt::format("constant {} does not exist: there are {}", record.value,
                                       module_.constants.size()));
      const auto dtype = static_cast<DType>(record.dtype);
      if (record.dtype >= kDTypeCount || kind(dtype) == DTypeKind::none || !all_zero(record.zero))
        return reader.fail(fmt::format("param {} is malformed", module_.params.size()));
      module_.params.push_back({record.name, dtype, record.value});
    }
    return true;
  }

  bool functions() {
    SectionReader reader = section(SectionId::functions);
    uint32_t count = 0;
    std::vector<format::FunctionRecord> records;
    if (!reader.get(count) || !reader.get_all(records, count, "function")) return false;
    if (records.empty()) return reader.fail("there is no init, which every module has");
    module_.functions.resize(records.size() - 1);
    code_sizes_.reserve(records.size());
    for (size_t i = 0; i < records.size(); ++i) {
      Function& function = i == 0 ? module_.init : module_.functions[i - 1];
      if (!read_function(reader, records[i], function)) return false;
      code_sizes_.push_back(records[i].instructions);
    }
    return reader.at_end();
  }

  bool read_function(SectionReader& reader, const format::FunctionRecord& record,
                     Function& function) {
    function.name = record.name;
    function.parameters = record.parameters;
    if (!string_index(reader, record.name)) return false;
    if (record.parameters > record.values)
      return reader.fail(fmt::format("a function has {} parameters and {} registers",
                                     record.parameters, record.values));
    std::vector<uint32_t> flags;
    if (!reader.get_all(flags, record.parameters, "in-place flag") ||
        !reader.get_all(function.results, record.results, "result") ||
        !reader.get_all(function.values, record.values, "register"))
      return false;
    for (uint32_t flag : flags) {
      if (flag > 1) return reader.fail(fmt::format("a flag is {}, not 0 or 1", flag));
      function.inplace.push_back(static_cast<uint8_t>(flag));
    }
    for (uint32_t type : function.results)
      if (!type_index(reader, type)) return false;
    for (const Value& value : function.values)
      if (!type_index(reader, value.type)) return false;
    return true;
  }

  // Lists: marks where each begins, so that a ref cannot name the middle of one, and what the
  // highest register in each is, so that an instruction's use of it is checked without walking it
  // again.
  bool lists() {
    SectionReader reader = section(SectionId::lists);
    if (!reader.get_rest(module_.lists, "list entry")) return false;
    list_ends_.assign(module_.lists.size(), kNoList);
    for (size_t at = 0; at < module_.lists.size();) {
      const uint64_t count = module_.lists[at].bits;
      if (count > module_.lists.size() - at - 1)
        return reader.fail(fmt::format("the list at {} has {} items where {} are left", at, count,
                                       module_.lists.size() - at - 1));
      uint32_t registers = 0;
      for (size_t i = at + 1; i <= at + count; ++i) {
        const Ref item = module_.lists[i];
        if (item.is(RefKind::list) || item.is(RefKind::none))
          return reader.fail(fmt::format("item {} is a list or nothing", i));
        if (item.is(RefKind::value))
          registers = std::max(registers, item.index() + 1);
        else if (!check_ref(reader, item, 0))
          return false;
      }
      list_ends_[at] = registers;
      at += static_cast<size_t>(count) + 1;
    }
    return true;
  }

  // Whether a ref of a function with so many registers names something.
  bool check_ref(SectionReader& reader, Ref ref, size_t registers) {
    const auto in = [&](std::string_view what, size_t count) {
      if (ref.index() < count) return true;
      return reader.fail(
          fmt::format("{} {} does not exist: there are {}", what, ref.index(), count));
    };
    switch (ref.kind()) {
      case RefKind::none:
        return ref.bits == 0 || reader.fail("a ref of kind 0 with an index");
      case RefKind::tensor:
        return in("tensor", module_.tensors.size());
      case RefKind::param:
        return in("param", module_.params.size());
      case RefKind::value:
        return in("register", registers);
      case RefKind::constant:
        return in("constant", module_.constants.size());
      case RefKind::string:
        return in("string", module_.strings.size());
      case RefKind::function:
        return in("function", module_.functions.size());
      case RefKind::number:
        return true;
      case RefKind::list:
        if (ref.index() >= list_ends_.size() || list_ends_[ref.index()] == kNoList)
          return reader.fail(fmt::format("no list begins at {}", ref.index()));
        if (list_ends_[ref.index()] <= registers) return true;
        return reader.fail(fmt::format("the list at {} names register {}: there are {}",
                                       ref.index(), list_ends_[ref.index()] - 1, registers));
    }
    return reader.fail(
        fmt::format("a ref of kind {} does not exist", static_cast<int>(ref.kind())));
  }

  bool instructions() {
    SectionReader words = section(SectionId::words);
    if (!words.get_rest(module_.words, "word")) return false;
    SectionReader reader = section(SectionId::instructions);
    uint64_t next = 0;  // words are used in order, without gaps
    for (size_t f = 0; f < code_sizes_.size(); ++f) {
      Function& function = f == 0 ? module_.init : module_.functions[f - 1];
      if (!reader.get_all(function.code, code_sizes_[f], "instruction")) return false;
      for (const Instruction& instruction : function.code) {
        const auto opcode = static_cast<uint16_t>(instruction.opcode);
        if (find_op(opcode) == nullptr)
          return reader.fail(fmt::format("no instruction has opcode {:#06x}", opcode));
        const uint64_t count =
            uint64_t{instruction.results} + instruction.operands + instruction.attributes;
        if (instruction.first != next || count > module_.words.size() - next)
          return reader.fail(fmt::format("an instruction's {} words at {}: {} are left at {}",
                                         count, instruction.first, module_.words.size() - next,
                                         next));
        for (uint64_t i = 0; i < count; ++i)
          if (!check_ref(words, module_.words[next + i], function.values.size())) return false;
        next += count;
      }
    }
    if (next != module_.words.size())
      return words.fail(
          fmt::format("{} words belong to no instruction", module_.words.size() - next));
    return reader.at_end();
  }

  bool tests() {
    SectionReader reader = section(SectionId::tests);
    if (reader.left() == 0) return true;
    uint32_t count = 0;
    uint32_t zero = 0;
    std::vector<format::TestRecord> records;
    if (!reader.get(count) || !reader.get(zero) || !reader.get_all(records, count, "test"))
      return false;
    if (zero != 0) return reader.fail("a padding field is not 0");
    for (const format::TestRecord& record : records) {
      Test& test = module_.tests.emplace_back();
      if (!string_index(reader, record.name)) return false;
      if (record.trap > UINT8_MAX || name(static_cast<TrapCode>(record.trap)) == "unknown")
        return reader.fail(fmt::format("trap {} does not exist", record.trap));
      test.name = record.name;
      test.trap = static_cast<TrapCode>(record.trap);
      if (!bindings(reader, record.given, test.given)) return false;
      if (!bindings(reader, record.expected, test.expected)) return false;
    }
    return reader.at_end();
  }

  bool bindings(SectionReader& reader, uint32_t count, std::vector<TestBinding>& to) {
    std::vector<format::BindingRecord> records;
    if (!reader.get_all(records, count, "binding")) return false;
    for (const format::BindingRecord& record : records) {
      Ref target;
      target.bits = record.target;
      if (!target.is(RefKind::tensor) && !target.is(RefKind::param))
        return reader.fail("a binding of something that is neither a tensor nor a param");
      if (!check_ref(reader, target, 0)) return false;
      if (record.zero != 0) return reader.fail("a padding field is not 0");
      to.push_back({target, record.offset});
    }
    return true;
  }

  // Data lies in the order of those who refer to it, each piece once: so its pieces together are no
  // more than the section, however often they are copied.
  bool data() {
    const auto bytes = section_bytes(sections_, SectionId::data);
    uint64_t end = 0;
    const auto piece = [&](uint64_t offset, uint64_t size) {
      const uint64_t wanted = next_data_offset(end);
      if (wanted > bytes.size() || size > bytes.size() - wanted)
        return status_.fail(
            ErrorCode::BadEncoding, "section 'data'",
            fmt::format("{} bytes at {} leave it: it has {}", size, wanted, bytes.size()));
      end = wanted + size;
      return offset == wanted ||
             status_.fail(ErrorCode::NotCanonical, "section 'data'",
                          fmt::format("data at {} belongs at {}", offset, wanted));
    };
    for (const TensorDecl& decl : module_.tensors)
      if (decl.source == DataSource::embedded &&
          !piece(decl.offset, static_cast<uint64_t>(module_.types[decl.type].bytes())))
        return false;
    for (const Test& test : module_.tests)
      for (const auto* bindings : {&test.given, &test.expected})
        for (const TestBinding& binding : *bindings)
          if (!piece(binding.offset, binding_size(module_, binding.target))) return false;
    if (end != bytes.size())
      return status_.fail(ErrorCode::NotCanonical, "section 'data'",
                          fmt::format("{} bytes belong to nothing", bytes.size() - end));
    module_.data.assign(bytes.begin(), bytes.end());
    return true;
  }

  static constexpr uint32_t kNoList = UINT32_MAX;

  const Sections& sections_;
  Module& module_;
  DecodeStatus& status_;
  std::vector<uint32_t> code_sizes_;
  std::vector<uint32_t>
      list_ends_;  // by position: one more than the highest register of the list there
};

// ---- the one encoding
// ----------------------------------------------------------------------------

// Registers numbered otherwise than canonically would make the comparison below slow, so they are
// found first.
bool check_registers(const Module& module, DecodeStatus& status) {
  for (size_t f = 0; f < module.functions.size(); ++f)
    if (!in_definition_order(module, module.functions[f]))
      return status.fail(ErrorCode::NotCanonical,
                         fmt::format("function {}", module.strings[module.functions[f].name]),
                         "registers are not numbered in the order of their definitions");
  if (in_definition_order(module, module.init)) return true;
  return status.fail(ErrorCode::NotCanonical, "initialisers", "registers that nothing defines");
}

bool check_canonical(std::span<const std::byte> file, const Module& module, DecodeStatus& status) {
  if (!check_registers(module, status)) return false;
  const std::vector<std::byte> canonical = encode(module);
  const auto [mine, theirs] =
      std::mismatch(canonical.begin(), canonical.end(), file.begin(), file.end());
  if (mine == canonical.end() && theirs == file.end()) return true;
  return status.fail(
      ErrorCode::NotCanonical, "file",
      fmt::format("the one encoding of this module has {} bytes and differs from byte {} on",
                  canonical.size(), mine - canonical.begin()));
}

}  // namespace

bool DecodeStatus::fail(ErrorCode code, std::string place, std::string message) {
  if (problem_) return false;
  problem_.emplace();
  problem_->code = code;
  problem_->place = std::move(place);
  problem_->message = std::move(message);
  return false;
}

bool SectionReader::too_short(uint64_t count, size_t size, std::string_view what) {
  return fail(
      fmt::format("{} {}s of {} bytes where {} bytes are left", count, what, size, rest_.size()));
}

bool SectionReader::get_texts(std::vector<std::string>& texts) {
  if (rest_.empty()) return true;
  uint32_t count = 0;
  std::vector<uint32_t> lengths;
  if (!get(count) || !get_all(lengths, count, "length")) return false;
  texts.reserve(texts.size() + lengths.size());
  for (uint32_t length : lengths) {
    if (length > rest_.size())
      return fail(fmt::format("a text of {} bytes where {} are left", length, rest_.size()));
    const auto bytes = take(length);
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return true;
}

std::span<const std::byte> section_bytes(const Sections& sections, SectionId id) {
  for (const auto& [number, bytes] : sections)
    if (number == static_cast<uint32_t>(id)) return bytes;
  return {};
}

Result<Module> decode(std::span<const std::byte> bytes) {
  DecodeStatus status;
  Module module;
  Sections sections;
  const bool read = FileReader(bytes, status).read(sections, module.unknown) &&
                    CoreDecoder(sections, module, status).decode() &&
                    decode_debug(sections, module, status) &&
                    check_canonical(bytes, module, status);
  if (!read) return status.take();
  return module;
}

Result<Module> load_module(std::span<const std::byte> bytes) {
  Result<Module> module = decode(bytes);
  if (!module.ok()) return module;
  if (Problems problems = verify(*module); !problems.empty()) return problems;
  return module;
}

}  // namespace trek::isa
