// How an instruction ends: nothing, or the reason why the program cannot go on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "emulator/engine.h"

namespace trek::ref {

struct Fault {
  Outcome outcome = Outcome::trapped;
  isa::TrapCode code = isa::TrapCode::None;
  int64_t element = -1;
  std::string detail;
};

// Null: executed. A pointer, because it is handed on after every instruction.
using Status = std::unique_ptr<Fault>;

inline Status trap(isa::TrapCode code, int64_t element, std::string detail) {
  return std::make_unique<Fault>(Fault{Outcome::trapped, code, element, std::move(detail)});
}
inline Status limit_reached(std::string detail) {
  return std::make_unique<Fault>(Fault{Outcome::limit, isa::TrapCode::None, -1, std::move(detail)});
}

}  // namespace trek::ref
