// The optional sections: what a person would miss. Their texts are numbered by themselves, so that
// the core of a module is the same bytes with and without them.
#include <algorithm>
#include <tuple>

#include "isa/codec_parts.h"

namespace trek::isa {
namespace {

using format::SectionId;

auto order(const Debug::CodeComment& c) {
  return std::tuple(c.function, c.instruction, c.trailing);
}
auto order(const Debug::Spelling& s) {
  return std::tuple(s.where, s.function, s.index, s.slot, s.element);
}

// Entries in their order. Those that are in order already stay as they come, so that what was decoded
// is written as it was.
template <class T>
std::vector<T> in_order(std::vector<T> entries) {
  const auto before = [](const T& a, const T& b) { return order(a) < order(b); };
  if (std::is_sorted(entries.begin(), entries.end(), before)) return entries;
  std::sort(entries.begin(), entries.end(), [](const T& a, const T& b) {
    return std::pair(order(a), a.text) < std::pair(order(b), b.text);
  });
  return entries;
}

class DebugEncoder {
 public:
  DebugEncoder(const Module& module, const CanonicalModule& canonical)
      : module_(module), canonical_(canonical), text_(module.strings) {}

  void encode(const EncodeOptions& options, std::vector<OutSection>& sections) {
    if (options.names) sections.push_back(names());
    if (options.lines) sections.push_back(lines());
    if (options.sources) sections.push_back(sources());
    if (options.source_form) {
      sections.push_back(constants());
      sections.push_back(items());
      sections.push_back(comments());
      sections.push_back(spellings());
    }
    OutSection texts(SectionId::debug_strings);
    texts.put_texts(text_.take());
    sections.push_back(std::move(texts));
  }

 private:
  OutSection names() {
    OutSection section(SectionId::names);
    const auto& all = module_.debug.names;
    const auto has_name = [](const Debug::FunctionNames& names) {
      return std::any_of(names.values.begin(), names.values.end(),
                         [](uint32_t n) { return n != 0; });
    };
    if (std::none_of(all.begin(), all.end(), has_name)) return section;
    std::vector<uint32_t> texts;
    for (size_t f = 0; f < module_.functions.size(); ++f) {
      const std::vector<uint32_t>& numbers = canonical_.value_numbers[f + 1];
      texts.assign(module_.functions[f].values.size(), 0);
      const size_t named = f < all.size() ? std::min(all[f].values.size(), texts.size()) : 0;
      for (size_t v = 0; v < named; ++v) texts[numbers.empty() ? v : numbers[v]] = all[f].values[v];
      for (uint32_t& text : texts) text = text_(text);
      section.put_all(std::span<const uint32_t>(texts));
    }
    return section;
  }

  OutSection lines() {
    OutSection section(SectionId::lines);
    const auto& all = module_.debug.lines;
    const auto is_known = [](const Debug::FunctionLines& lines) {
      return std::any_of(lines.code.begin(), lines.code.end(),
                         [](const Location& l) { return l != Location{}; });
    };
    if (std::none_of(all.begin(), all.end(), is_known)) return section;
    static_assert(sizeof(Location) == sizeof(format::LineRecord));
    for (size_t f = 0; f < module_.functions.size(); ++f) {
      const size_t count = module_.functions[f].code.size();
      const std::span<const Location> known =
          f < all.size() ? std::span(all[f].code).first(std::min(all[f].code.size(), count))
                         : std::span<const Location>();
      section.put_all(known);
      section.bytes.resize(section.bytes.size() + (count - known.size()) * sizeof(Location));
    }
    return section;
  }

  OutSection sources() {
    OutSection section(SectionId::sources);
    const auto& files = module_.debug.files;
    const auto& texts = module_.debug.sources;
    if (files.empty()) return section;
    const bool has_texts = std::any_of(texts.begin(), texts.end(),
                                       [](const std::string& text) { return !text.empty(); });
    const auto text = [&](size_t i) {
      return has_texts && i < texts.size() ? std::string_view(texts[i]) : std::string_view();
    };
    section.put(static_cast<uint32_t>(files.size()));
    section.put(uint32_t{has_texts});
    for (size_t i = 0; i < files.size(); ++i) {
      section.put(static_cast<uint32_t>(files[i].size()));
      section.put(static_cast<uint32_t>(text(i).size()));
    }
    for (size_t i = 0; i < files.size(); ++i) {
      section.put_all(std::span(files[i].data(), files[i].size()));
      section.put_all(std::span(text(i).data(), text(i).size()));
    }
    return section;
  }

  OutSection constants() {
    OutSection section(SectionId::debug_constants);
    for (const Debug::NamedConstant& constant : module_.debug.constants) {
      const uint32_t name = text_(constant.name);
      section.put(format::NamedConstantRecord{name, text_(constant.text)});
    }
    return section;
  }

  OutSection items() {
    OutSection section(SectionId::items);
    for (const Debug::Item& item : module_.debug.items) {
      const bool is_comment = item.kind == Debug::ItemKind::comment;
      const uint32_t index = is_comment ? text_(item.index) : item.index;
      section.put(format::ItemRecord{static_cast<uint32_t>(item.kind), index, text_(item.comment)});
    }
    return section;
  }

  OutSection comments() {
    OutSection section(SectionId::comments);
    for (const Debug::CodeComment& comment : in_order(module_.debug.comments))
      section.put(format::CommentRecord{comment.function, comment.instruction, comment.trailing,
                                        text_(comment.text)});
    return section;
  }

  OutSection spellings() {
    OutSection section(SectionId::spellings);
    for (const Debug::Spelling& spelling : in_order(module_.debug.spellings))
      section.put(format::SpellingRecord{static_cast<uint32_t>(spelling.where), spelling.function,
                                         spelling.index, spelling.slot, spelling.element,
                                         text_(spelling.text)});
    return section;
  }

  const Module& module_;
  const CanonicalModule& canonical_;
  StringNumbering text_;
};

class DebugDecoder {
 public:
  DebugDecoder(const Sections& sections, Module& module, DecodeStatus& status)
      : sections_(sections), module_(module), status_(status) {}

  bool decode() {
    // Texts follow the module's own strings; text 0 is string 0.
    first_text_ = static_cast<uint32_t>(module_.strings.size());
    SectionReader reader = section(SectionId::debug_strings);
    if (!reader.get_texts(module_.strings) || !reader.at_end()) return false;
    return names() && lines() && sources() && constants() && items() && comments() && spellings();
  }

 private:
  SectionReader section(SectionId id) {
    return {format::find_section(static_cast<uint32_t>(id))->name, section_bytes(sections_, id),
            status_};
  }

  // Turns a text of the file into a string of the module.
  bool text(SectionReader& reader, uint32_t& index) {
    if (index == 0) return true;
    const size_t count = module_.strings.size() - first_text_;
    if (index > count)
      return reader.fail(fmt::format("text {} does not exist: there are {}", index, count));
    index += first_text_ - 1;
    return true;
  }

  bool index(SectionReader& reader, std::string_view what, uint32_t index, size_t count) {
    if (index < count) return true;
    return reader.fail(fmt::format("{} {} does not exist: there are {}", what, index, count));
  }

  bool names() {
    SectionReader reader = section(SectionId::names);
    if (reader.left() == 0) return true;
    for (const Function& function : module_.functions) {
      auto& names = module_.debug.names.emplace_back().values;
      if (!reader.get_all(names, function.values.size(), "name")) return false;
      for (uint32_t& name : names)
        if (!text(reader, name)) return false;
    }
    return reader.at_end();
  }

  bool lines() {
    SectionReader reader = section(SectionId::lines);
    if (reader.left() == 0) return true;
    for (const Function& function : module_.functions)
      if (!reader.get_all(module_.debug.lines.emplace_back().code, function.code.size(), "line"))
        return false;
    return reader.at_end();
  }

  bool sources() {
    SectionReader reader = section(SectionId::sources);
    if (reader.left() == 0) return true;
    struct Lengths {
      uint32_t name;
      uint32_t text;
    };
    uint32_t count = 0;
    uint32_t has_texts = 0;
    std::vector<Lengths> lengths;
    if (!reader.get(count) || !reader.get(has_texts) || !reader.get_all(lengths, count, "file"))
      return false;
    if (has_texts > 1) return reader.fail(fmt::format("a flag is {}, not 0 or 1", has_texts));
    for (const Lengths& length : lengths) {
      if (uint64_t{length.name} + length.text > reader.left())
        return reader.fail(fmt::format("a file of {} and {} bytes where {} are left", length.name,
                                       length.text, reader.left()));
      module_.debug.files.push_back(string_of(reader.take(length.name)));
      const auto bytes = reader.take(length.text);
      if (has_texts != 0) {
        module_.debug.sources.push_back(string_of(bytes));
      } else if (!bytes.empty()) {
        return reader.fail("a text in a section that says it has none");
      }
    }
    return reader.at_end();
  }

  static std::string string_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  bool constants() {
    SectionReader reader = section(SectionId::debug_constants);
    std::vector<format::NamedConstantRecord> records;
    if (!reader.get_rest(records, "constant")) return false;
    for (format::NamedConstantRecord& record : records) {
      if (!text(reader, record.name) || !text(reader, record.text)) return false;
      module_.debug.constants.push_back({record.name, record.text});
    }
    return true;
  }

  // How many things an item's index may name; 0 of what names none.
  size_t count_of(Debug::ItemKind kind) const {
    switch (kind) {
      case Debug::ItemKind::constant:
        return module_.debug.constants.size();
      case Debug::ItemKind::tensor:
        return module_.tensors.size();
      case Debug::ItemKind::param:
        return module_.params.size();
      case Debug::ItemKind::function:
        return module_.functions.size();
      case Debug::ItemKind::test:
        return module_.tests.size();
      case Debug::ItemKind::comment:
      case Debug::ItemKind::blank:
      case Debug::ItemKind::version:
        return 0;
    }
    return 0;
  }

  bool items() {
    SectionReader reader = section(SectionId::items);
    std::vector<format::ItemRecord> records;
    if (!reader.get_rest(records, "item")) return false;
    for (format::ItemRecord& record : records) {
      if (record.kind > static_cast<uint32_t>(Debug::ItemKind::version))
        return reader.fail(fmt::format("item kind {} does not exist", record.kind));
      const auto kind = static_cast<Debug::ItemKind>(record.kind);
      if (kind == Debug::ItemKind::comment) {
        if (!text(reader, record.index)) return false;
      } else if (kind != Debug::ItemKind::blank && kind != Debug::ItemKind::version) {
        if (!index(reader, "the named item", record.index, count_of(kind))) return false;
      } else if (record.index != 0) {
        return reader.fail("a line that names nothing has an index");
      }
      if (!text(reader, record.comment)) return false;
      module_.debug.items.push_back({kind, record.index, record.comment});
    }
    return true;
  }

  bool comments() {
    SectionReader reader = section(SectionId::comments);
    std::vector<format::CommentRecord> records;
    if (!reader.get_rest(records, "comment")) return false;
    for (format::CommentRecord& record : records) {
      if (!index(reader, "function", record.function, module_.functions.size()) ||
          !index(reader, "instruction", record.instruction,
                 module_.functions[record.function].code.size()) ||
          !text(reader, record.text))
        return false;
      if (record.trailing > 1)
        return reader.fail(fmt::format("a flag is {}, not 0 or 1", record.trailing));
      module_.debug.comments.push_back(
          {record.function, record.instruction, record.trailing != 0, record.text});
    }
    return true;
  }

  // How many slots the thing has that a spelling is about, or nothing where it does not exist.
  std::optional<size_t> slots(const format::SpellingRecord& record) const {
    using Where = Debug::Spelling::Where;
    if (record.where == static_cast<uint32_t>(Where::tensor)) {
      if (record.function != 0 || record.index >= module_.tensors.size()) return std::nullopt;
      return static_cast<size_t>(module_.types[module_.tensors[record.index].type].shape.rank());
    }
    if (record.where != static_cast<uint32_t>(Where::instruction)) return std::nullopt;
    if (record.function >= module_.functions.size()) return std::nullopt;
    const auto& code = module_.functions[record.function].code;
    if (record.index >= code.size()) return std::nullopt;
    const Instruction& i = code[record.index];
    return size_t{i.results} + i.operands + i.attributes;
  }

  bool spellings() {
    SectionReader reader = section(SectionId::spellings);
    std::vector<format::SpellingRecord> records;
    if (!reader.get_rest(records, "spelling")) return false;
    for (format::SpellingRecord& record : records) {
      const auto count = slots(record);
      if (!count || record.slot >= *count)
        return reader.fail(fmt::format("the spelling of slot {} of {}, which does not exist",
                                       record.slot, record.index));
      if (!text(reader, record.text)) return false;
      module_.debug.spellings.push_back({static_cast<Debug::Spelling::Where>(record.where),
                                         record.function, record.index, record.slot, record.element,
                                         record.text});
    }
    return true;
  }

  const Sections& sections_;
  Module& module_;
  DecodeStatus& status_;
  uint32_t first_text_ = 0;
};

}  // namespace

void encode_debug(const Module& module, const CanonicalModule& canonical,
                  const EncodeOptions& options, std::vector<OutSection>& sections) {
  DebugEncoder(module, canonical).encode(options, sections);
}

bool decode_debug(const Sections& sections, Module& module, DecodeStatus& status) {
  return DebugDecoder(sections, module, status).decode();
}

}  // namespace trek::isa
