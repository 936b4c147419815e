// A module file in parts, for tests that break it: sections can be changed, added and removed, and the
// file put together again with every checksum right, so that what is found is not the checksum.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include <xxhash.h>

#include "isa/codec.h"
#include "isa/codec_format.h"

namespace trek::isa {

using Bytes = std::vector<std::byte>;

struct TkbFile {
  struct Section {
    format::SectionEntry entry;
    Bytes bytes;
  };
  format::Header header{};
  std::vector<Section> sections;

  // Whether the file has a header and a table whose entries lie in it, so that it can be taken apart.
  static bool has_parts(std::span<const std::byte> file) {
    format::Header header{};
    if (file.size() < sizeof header) return false;
    std::memcpy(&header, file.data(), sizeof header);
    const size_t room = (file.size() - sizeof header) / sizeof(format::SectionEntry);
    if (header.sections > room) return false;
    for (uint32_t i = 0; i < header.sections; ++i) {
      format::SectionEntry entry{};
      std::memcpy(&entry, file.data() + sizeof header + i * sizeof entry, sizeof entry);
      if (entry.offset > file.size() || entry.size > file.size() - entry.offset) return false;
      if (entry.alignment > format::kMaxAlignment) return false;
    }
    return true;
  }

  explicit TkbFile(std::span<const std::byte> file) {
    std::memcpy(&header, file.data(), sizeof header);
    for (uint32_t i = 0; i < header.sections; ++i) {
      format::SectionEntry entry{};
      std::memcpy(&entry, file.data() + sizeof header + i * sizeof entry, sizeof entry);
      const auto* from = file.data() + entry.offset;
      sections.push_back({entry, {from, from + entry.size}});
    }
  }

  Section* find(format::SectionId id) {
    for (Section& section : sections)
      if (section.entry.id == static_cast<uint32_t>(id)) return &section;
    return nullptr;
  }

  // Writes a record over the bytes of a section.
  template <class T>
  void poke(format::SectionId id, size_t offset, T value) {
    std::memcpy(find(id)->bytes.data() + offset, &value, sizeof value);
  }

  // Sizes, offsets and checksums as they belong.
  Bytes assemble() {
    std::vector<format::SectionEntry> entries;
    uint64_t end = sizeof header + sections.size() * sizeof(format::SectionEntry);
    for (Section& section : sections) {
      format::SectionEntry& entry = section.entry;
      const uint64_t alignment = entry.alignment == 0 ? 1 : entry.alignment;
      entry.offset = (end + alignment - 1) / alignment * alignment;
      entry.size = section.bytes.size();
      entry.checksum = XXH3_64bits(section.bytes.data(), section.bytes.size());
      end = entry.offset + entry.size;
      entries.push_back(entry);
    }
    return write(entries, end);
  }

  // The table as given, the sections where they belong: for tables that lie.
  Bytes assemble(const std::vector<format::SectionEntry>& entries) {
    const Bytes honest = assemble();
    Bytes file = write(entries, honest.size());
    const size_t table = sizeof header + sections.size() * sizeof(format::SectionEntry);
    std::copy(honest.begin() + static_cast<std::ptrdiff_t>(table), honest.end(),
              file.begin() + static_cast<std::ptrdiff_t>(table));
    return file;
  }

  std::vector<format::SectionEntry> table() {
    assemble();
    std::vector<format::SectionEntry> entries;
    for (const Section& section : sections) entries.push_back(section.entry);
    return entries;
  }

 private:
  Bytes write(const std::vector<format::SectionEntry>& entries, uint64_t size) {
    header.sections = static_cast<uint32_t>(entries.size());
    header.file_size = size;
    const size_t table_size = entries.size() * sizeof(format::SectionEntry);
    header.checksum = XXH3_64bits(entries.data(), table_size);
    Bytes file(static_cast<size_t>(size));
    std::memcpy(file.data(), &header, sizeof header);
    if (table_size > 0) std::memcpy(file.data() + sizeof header, entries.data(), table_size);
    for (size_t i = 0; i < sections.size() && i < entries.size(); ++i)
      if (sections[i].entry.offset + sections[i].bytes.size() <= size)
        std::copy(sections[i].bytes.begin(), sections[i].bytes.end(),
                  file.begin() + static_cast<std::ptrdiff_t>(sections[i].entry.offset));
    return file;
  }
};

// "code" of the first problem, or "" where there is none.
inline std::string_view problem_of(const Bytes& file) {
  const auto module = decode(file);
  return module.ok() ? "" : code(module.problems()[0].code);
}

// A small module that has every section.
Module full_module();

}  // namespace trek::isa
