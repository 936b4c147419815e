// Who defines and who reads the values of a flow, and who writes its tensors and variables.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "emulator/plan/flow.h"

namespace trek::plan {

class Uses {
 public:
  explicit Uses(const Flow& flow);

  struct Use {
    uint32_t definition = kNone;  // of a variable the last one
    uint32_t consumers = 0;       // different steps
  };
  const Use& operator[](uint32_t value) const { return uses_[value]; }
  // Whether a step between these two writes one of the names.
  bool written_between(std::span<const Name> names, uint32_t from, uint32_t to) const;

 private:
  using Key = std::pair<Name::Kind, uint32_t>;
  std::vector<Use> uses_;
  std::map<Key, std::vector<uint32_t>> writes_;  // of tensors and variables: steps, ascending
};

}  // namespace trek::plan
