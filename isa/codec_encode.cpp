// Writes a canonical module as sections, and the sections as a file.
#include <algorithm>
#include <cstring>

#include <xxhash.h>

#include "isa/codec_parts.h"

namespace trek::isa {
namespace {

using format::SectionId;

format::TypeRecord record_of(const Type& type) {
  format::TypeRecord record{};
  record.dtype = static_cast<uint8_t>(type.dtype);
  record.scalar = type.scalar ? 1 : 0;
  record.rank = static_cast<uint8_t>(type.shape.rank());
  std::copy(type.shape.begin(), type.shape.end(), record.dims.begin());
  return record;
}

OutSection strings_section(const CanonicalModule& module) {
  OutSection section(SectionId::strings);
  section.put_texts(module.strings);
  return section;
}

OutSection types_section(const CanonicalModule& module) {
  OutSection section(SectionId::types);
  for (const Type& type : module.types) section.put(record_of(type));
  return section;
}

OutSection constants_section(const CanonicalModule& module) {
  OutSection section(SectionId::constants);
  section.bytes.reserve(module.constants.size() * sizeof(format::ConstantRecord));
  for (const Constant& constant : module.constants)
    section.put(format::ConstantRecord{static_cast<uint8_t>(constant.dtype), {}, constant.bits});
  return section;
}

OutSection refs_section(SectionId id, std::span<const Ref> refs) {
  static_assert(sizeof(Ref) == sizeof(uint32_t));
  OutSection section(id);
  section.put_all(refs);
  return section;
}

OutSection instructions_section(const CanonicalModule& module) {
  static_assert(sizeof(Instruction) == sizeof(format::InstructionRecord));
  OutSection section(SectionId::instructions);
  section.put_all(std::span<const Instruction>(module.instructions));
  return section;
}

OutSection tensors_section(const CanonicalModule& module) {
  OutSection section(SectionId::tensors);
  for (const TensorDecl& decl : module.tensors)
    section.put(format::TensorRecord{decl.name, decl.type, static_cast<uint8_t>(decl.role),
                                     static_cast<uint8_t>(decl.source), 0, decl.external,
                                     decl.offset});
  return section;
}

OutSection params_section(const CanonicalModule& module) {
  OutSection section(SectionId::params);
  for (const Param& param : module.params)
    section.put(
        format::ParamRecord{param.name, static_cast<uint8_t>(param.dtype), {}, param.value});
  return section;
}

OutSection functions_section(const CanonicalModule& module) {
  OutSection section(SectionId::functions);
  section.put(static_cast<uint32_t>(module.functions.size()));
  for (size_t i = 0; i < module.functions.size(); ++i) {
    const Function& function = module.functions[i];
    section.put(format::FunctionRecord{
        function.name, function.parameters, static_cast<uint32_t>(function.results.size()),
        static_cast<uint32_t>(function.values.size()), module.code_sizes[i]});
  }
  for (const Function& function : module.functions) {
    for (uint8_t flag : function.inplace) section.put(uint32_t{flag});
    section.put_all(std::span<const uint32_t>(function.results));
    static_assert(sizeof(Value) == sizeof(uint32_t));
    section.put_all(std::span<const Value>(function.values));
  }
  return section;
}

OutSection externals_section(const CanonicalModule& module) {
  OutSection section(SectionId::externals);
  for (const External& external : module.externals)
    section.put(format::ExternalRecord{external.format, external.path, external.member, 0,
                                       external.hash_low, external.hash_high});
  return section;
}

OutSection tests_section(const CanonicalModule& module) {
  OutSection section(SectionId::tests);
  if (module.tests.empty()) return section;
  section.put(static_cast<uint32_t>(module.tests.size()));
  section.put(uint32_t{0});
  for (const Test& test : module.tests)
    section.put(format::TestRecord{test.name, static_cast<uint32_t>(test.trap),
                                   static_cast<uint32_t>(test.given.size()),
                                   static_cast<uint32_t>(test.expected.size())});
  for (const Test& test : module.tests)
    for (const auto* bindings : {&test.given, &test.expected})
      for (const TestBinding& binding : *bindings)
        section.put(format::BindingRecord{binding.target.bits, 0, binding.offset});
  return section;
}

OutSection data_section(const Module& module, const CanonicalModule& canonical) {
  OutSection section(SectionId::data);
  section.bytes.resize(static_cast<size_t>(canonical.data_size));
  for (const DataChunk& chunk : canonical.data)
    if (chunk.size > 0)
      std::memcpy(section.bytes.data() + chunk.to, module.data.data() + chunk.from, chunk.size);
  return section;
}

uint64_t aligned(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

// Header, table, sections. Empty sections are left out.
std::vector<std::byte> assemble(std::vector<OutSection> sections) {
  std::erase_if(sections, [](const OutSection& section) { return section.bytes.empty(); });
  std::sort(sections.begin(), sections.end(),
            [](const OutSection& a, const OutSection& b) { return a.id < b.id; });

  std::vector<format::SectionEntry> table;
  uint64_t end = sizeof(format::Header) + sections.size() * sizeof(format::SectionEntry);
  for (const OutSection& section : sections) {
    const uint64_t offset = aligned(end, section.alignment);
    const uint64_t size = section.bytes.size();
    const uint64_t checksum = XXH3_64bits(section.bytes.data(), section.bytes.size());
    table.push_back({section.id, section.flags, section.alignment, 0, offset, size, checksum});
    end = offset + size;
  }

  format::Header header{};
  header.magic = format::kMagic;
  header.major = kVersionMajor;
  header.minor = kVersionMinor;
  header.sections = static_cast<uint32_t>(sections.size());
  header.file_size = end;
  header.checksum = XXH3_64bits(table.data(), table.size() * sizeof(format::SectionEntry));

  std::vector<std::byte> file(static_cast<size_t>(end));
  const auto put = [&](uint64_t offset, const void* bytes, size_t size) {
    if (size != 0) std::memcpy(file.data() + offset, bytes, size);
  };
  put(0, &header, sizeof header);
  put(sizeof header, table.data(), table.size() * sizeof(format::SectionEntry));
  for (size_t i = 0; i < sections.size(); ++i) {
    put(table[i].offset, sections[i].bytes.data(), sections[i].bytes.size());
    sections[i].bytes = {};  // of large weights only one copy too many is held
  }
  return file;
}

}  // namespace

void OutSection::put_texts(std::span<const std::string_view> texts) {
  if (texts.size() <= 1) return;
  put(static_cast<uint32_t>(texts.size() - 1));
  size_t total = bytes.size() + (texts.size() - 1) * sizeof(uint32_t);
  for (std::string_view text : texts) total += text.size();
  bytes.reserve(total);
  for (std::string_view text : texts.subspan(1)) put(static_cast<uint32_t>(text.size()));
  for (std::string_view text : texts.subspan(1)) put_all(std::span(text.data(), text.size()));
}

std::vector<std::byte> encode(const Module& module, const EncodeOptions& options) {
  const CanonicalModule canonical = canonicalise(module);
  std::vector<OutSection> sections;
  sections.push_back(strings_section(canonical));
  sections.push_back(types_section(canonical));
  sections.push_back(constants_section(canonical));
  sections.push_back(refs_section(SectionId::lists, canonical.lists));
  sections.push_back(refs_section(SectionId::words, canonical.words));
  sections.push_back(instructions_section(canonical));
  sections.push_back(tensors_section(canonical));
  sections.push_back(params_section(canonical));
  sections.push_back(functions_section(canonical));
  sections.push_back(externals_section(canonical));
  sections.push_back(tests_section(canonical));
  sections.push_back(data_section(module, canonical));
  encode_debug(module, canonical, options, sections);
  if (options.unknown)
    for (const UnknownSection& unknown : module.unknown) sections.emplace_back(unknown);
  return assemble(std::move(sections));
}

}  // namespace trek::isa
