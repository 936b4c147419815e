// Texts that live as long as an assembly, and names as small numbers.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace trek::assembler {

// Keeps texts that no source holds: composed names, strings without their escapes. Each once.
class Texts {
 public:
  std::string_view keep(std::string text) { return *texts_.insert(std::move(text)).first; }

 private:
  std::unordered_set<std::string> texts_;
};

// Numbers for names, from 1. A name within an expansion has a number of its own (see scopes.h). The
// names are views that outlive the table.
class NameTable {
 public:
  NameTable();
  uint32_t number(std::string_view name);
  // The number of a name as the expansion's own.
  uint32_t number(uint32_t name, uint32_t expansion);
  // The same if there is one, else 0.
  uint32_t find(uint32_t name, uint32_t expansion) const;
  std::string_view name(uint32_t number) const { return names_[number]; }
  uint32_t size() const { return static_cast<uint32_t>(names_.size()); }

 private:
  void grow();

  // Open addressing over the plain names; number 0 is an empty slot.
  struct Slot {
    uint32_t hash = 0;
    uint32_t number = 0;
  };
  std::vector<Slot> slots_;
  std::vector<std::string_view> names_;
  size_t used_ = 0;
  std::unordered_map<uint64_t, uint32_t> expanded_;
};

}  // namespace trek::assembler
