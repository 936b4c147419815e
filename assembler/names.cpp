#include "assembler/names.h"

#include <functional>

namespace trek::assembler {
namespace {

uint32_t hash_of(std::string_view name) {
  return static_cast<uint32_t>(std::hash<std::string_view>()(name));
}

uint64_t key_of(uint32_t name, uint32_t expansion) { return uint64_t{expansion} << 32 | name; }

}  // namespace

NameTable::NameTable() : slots_(1024), names_(1) {}

void NameTable::grow() {
  std::vector<Slot> slots(slots_.size() * 2);
  const size_t mask = slots.size() - 1;
  for (const Slot& taken : slots_) {
    if (taken.number == 0) continue;
    size_t at = taken.hash & mask;
    while (slots[at].number != 0) at = (at + 1) & mask;
    slots[at] = taken;
  }
  slots_ = std::move(slots);
}

uint32_t NameTable::number(std::string_view name) {
  if (used_ * 2 >= slots_.size()) grow();
  const uint32_t hash = hash_of(name);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  for (; slots_[at].number != 0; at = (at + 1) & mask)
    if (slots_[at].hash == hash && names_[slots_[at].number] == name) return slots_[at].number;
  names_.push_back(name);
  ++used_;
  slots_[at] = {hash, size() - 1};
  return size() - 1;
}

uint32_t NameTable::number(uint32_t name, uint32_t expansion) {
  if (expansion == 0) return name;
  const auto [entry, added] = expanded_.try_emplace(key_of(name, expansion), size());
  if (added) names_.push_back(names_[name]);
  return entry->second;
}

uint32_t NameTable::find(uint32_t name, uint32_t expansion) const {
  const auto found = expanded_.find(key_of(name, expansion));
  return found == expanded_.end() ? 0 : found->second;
}

}  // namespace trek::assembler
