// What the files of the codec share: a section being written, a section being read, and the debug
// sections. Not for others to include.
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "isa/codec.h"
#include "isa/codec_canonical.h"
#include "isa/codec_format.h"

namespace trek::isa {

// A section to be written.
struct OutSection {
  uint32_t id = 0;
  uint32_t flags = 0;
  uint32_t alignment = 1;
  std::vector<std::byte> bytes;

  explicit OutSection(format::SectionId known) : id(static_cast<uint32_t>(known)) {
    const format::SectionInfo& info = *format::find_section(id);
    flags = info.flags;
    alignment = info.alignment;
  }
  explicit OutSection(const UnknownSection& unknown)
      : id(unknown.id), alignment(unknown.alignment), bytes(unknown.bytes) {}

  template <class T>
  void put(const T& record) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = bytes.size();
    bytes.resize(at + sizeof(T));
    std::memcpy(bytes.data() + at, &record, sizeof(T));
  }
  template <class T>
  void put_all(std::span<const T> records) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = bytes.size();
    bytes.resize(at + records.size_bytes());
    if (!records.empty()) std::memcpy(bytes.data() + at, records.data(), records.size_bytes());
  }
  // count, lengths and bytes of texts 1, 2 ...; nothing where there are none.
  void put_texts(std::span<const std::string_view> texts);
};

// The first problem of a file; reading stops there.
class DecodeStatus {
 public:
  bool ok() const { return !problem_; }
  // Always false, so that a check can end in `return status.fail(...)`.
  bool fail(ErrorCode code, std::string place, std::string message);
  Problem take() { return std::move(*problem_); }

 private:
  std::optional<Problem> problem_;
};

// The bytes of one section, taken from the front. What is not there is a problem, never a read.
class SectionReader {
 public:
  SectionReader(std::string_view name, std::span<const std::byte> bytes, DecodeStatus& status)
      : name_(name), rest_(bytes), status_(status) {}

  size_t left() const { return rest_.size(); }
  bool fail(std::string message) {
    return status_.fail(ErrorCode::BadEncoding, fmt::format("section '{}'", name_),
                        std::move(message));
  }
  template <class T>
  bool get(T& record) {
    return get_all(&record, 1, "record");
  }
  // `count` records, checked against the bytes that are left before anything is allocated.
  template <class T>
  bool get_all(std::vector<T>& records, uint64_t count, std::string_view what) {
    if (count > rest_.size() / sizeof(T)) return too_short(count, sizeof(T), what);
    records.resize(static_cast<size_t>(count));
    return get_all(records.data(), count, what);
  }
  // All that is left, as records.
  template <class T>
  bool get_rest(std::vector<T>& records, std::string_view what) {
    if (rest_.size() % sizeof(T) != 0)
      return fail(
          fmt::format("{} bytes are no whole number of {}s of {}", rest_.size(), what, sizeof(T)));
    return get_all(records, rest_.size() / sizeof(T), what);
  }
  // The bytes at hand; the caller has checked left().
  std::span<const std::byte> take(size_t size) {
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  // Texts as put_texts wrote them, appended to `texts`.
  bool get_texts(std::vector<std::string>& texts);
  bool at_end() {
    return rest_.empty() || fail(fmt::format("{} bytes are left over at its end", rest_.size()));
  }

 private:
  template <class T>
  bool get_all(T* records, uint64_t count, std::string_view what) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (count > rest_.size() / sizeof(T)) return too_short(count, sizeof(T), what);
    const auto bytes = take(static_cast<size_t>(count) * sizeof(T));
    if (!bytes.empty()) std::memcpy(records, bytes.data(), bytes.size());
    return true;
  }
  bool too_short(uint64_t count, size_t size, std::string_view what);

  std::string_view name_;
  std::span<const std::byte> rest_;
  DecodeStatus& status_;
};

// The sections of a file by id, as decode() found them.
using Sections = std::vector<std::pair<uint32_t, std::span<const std::byte>>>;
// The bytes of a section, none where it is absent.
std::span<const std::byte> section_bytes(const Sections& sections, format::SectionId id);

void encode_debug(const Module& module, const CanonicalModule& canonical,
                  const EncodeOptions& options, std::vector<OutSection>& sections);
// The debug sections of a module whose core has been read and checked.
bool decode_debug(const Sections& sections, Module& module, DecodeStatus& status);

}  // namespace trek::isa
