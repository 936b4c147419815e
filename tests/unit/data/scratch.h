// Bytes and files for the tests of data readers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "assembler/data/data.h"

namespace trek {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::string_view text) {
  const auto* from = reinterpret_cast<const std::byte*>(text.data());
  return {from, from + text.size()};
}

template <class T>
Bytes elements(std::initializer_list<T> values) {
  Bytes out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.begin(), out.size());
  return out;
}

// A folder that goes with the test.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "trek-data-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(folder_); }
  std::filesystem::path operator/(std::string_view name) const { return folder_ / name; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

template <class T>
std::string_view problem_of(const isa::Result<T>& result) {
  return result.ok() ? "" : isa::code(result.problems()[0].code);
}
template <class T>
std::string message_of(const isa::Result<T>& result) {
  return result.ok() ? "" : result.problems()[0].message;
}

}  // namespace trek
