// Which tasks share bytes, one of them writing: what the proof of order has to settle.
//
// Not all pairs of tasks that share bytes are looked at, or the proof would take the square of a program's
// length. Accesses of equal boxes by one processor make a class, in the order of its queue; what a task is known
// to wait for holds for all that is before that on its queue. So of a class the last task before another speaks
// for those before it, and from one trip of a loop to the next the last task of a class for all of it, and the
// first of the other class: pair_up() says why.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "emulator/plan/plan.h"

namespace trek::plan {

// Two tasks that share bytes, in program order, and what is to be proved of them.
struct Conflict {
  enum class Proof : uint8_t {
    within,  // the second begins after the first
    across,  // the first begins after the second of the trip before
    // Each begins after the other of the trip before: two partial writes of one node, of different elements, in any
    // order within a trip. That they are different is interpret()'s to see.
    between,
  };
  uint32_t first = 0;
  uint32_t second = 0;
  Proof proof = Proof::within;
  // Whether of each what shares bytes is read behind its late waits (Wait::late): is_read_late().
  bool first_is_late = false;
  bool second_is_late = false;
};

// Enough conflicts of a plan that passed check_structure() for their proofs to be the proof of all. `is_settled` says
// of two tasks, the earlier one first, that they are in order and have no loop in common.
std::vector<Conflict> find_conflicts(
    const Plan& plan, const std::function<bool(uint32_t early, uint32_t late)>& is_settled);

}  // namespace trek::plan
