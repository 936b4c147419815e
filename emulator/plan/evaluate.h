// What a task does, on a CPU: the meaning of isa/semantics applied to a tile, element by element.
//
// Evaluation sees memory only through Work, which holds every access to the boxes that the linker gave
// the task: a box that is too small shows at once, on any input.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "emulator/plan/element.h"
#include "emulator/plan/geometry.h"
#include "emulator/plan/plan.h"
#include "isa/result.h"

namespace trek::plan {

struct Fault {
  isa::TrapCode code = isa::TrapCode::None;
  int64_t element = -1;
};
using Faulted = std::optional<Fault>;

// What a decision task tells all processors.
struct Decision {
  int64_t from = 0;  // of a loop: the counter of trip t is from + step * t, modulo 2^64
  int64_t step = 0;
  uint64_t trips = 0;  // of a test or an if: 1 or 0
};

// A task being executed, and its surroundings.
class Work {
 public:
  struct World {
    std::span<std::byte> arena;
    uint64_t random_seed = 0;
    std::function<int64_t(uint32_t region)> counter;  // of an enclosing loop
    std::function<void(std::string_view name, const isa::Type&, std::span<const std::byte>)> emit;
    std::function<bool(uint32_t tensor, std::span<std::byte> block)> next;
    Decision* decision = nullptr;
    std::string violation;  // the first access outside the task's boxes
  };
  Work(const Plan& of, const Task& which, World& around)
      : plan(of),
        node(of.nodes[which.node]),
        task(which),
        world(around),
        boxes_(of.boxes_of(which)) {}

  const Plan& plan;
  const Node& node;
  const Task& task;
  World& world;

  // Element `index` of an operand: of a tensor, or the scalar itself whatever the index.
  uint64_t read(Operand operand, int64_t index);
  uint64_t operand(size_t i, int64_t index) { return read(node.operands[i], index); }
  // Element `index` of operand 0 of a node that may have a prologue.
  uint64_t source(int64_t index);
  void write(uint32_t view, int64_t index, uint64_t bits);
  // Gives element `index` of the instruction's own result i: through the tail, if there is one.
  void give(size_t i, int64_t index, uint64_t bits);

  // Elements that operands and results have.
  const isa::Type& type(size_t i) const { return node.operand_types[i]; }
  const isa::Type& result_type(size_t i) const { return plan.view(node.results[i]).type; }
  isa::DType type_of(Operand operand) const;
  // Attributes by name, the row's default where one is absent; item i of a list.
  int64_t integer(std::string_view name, size_t i = 0);
  double fallback(std::string_view name) const;
  template <typename C>
  C real(std::string_view name) {
    const Attribute& given = attribute(node, name);
    return given.given ? real<C>(given) : static_cast<C>(fallback(name));
  }
  template <typename C>
  C real(const Attribute& given) {
    return value_as<C>(type_of(given.items[0]), read(given.items[0], 0));
  }
  uint64_t key() { return static_cast<uint64_t>(integer("key")); }

  // What a micro-program finds beside operands: what the node's own instructions gave; of a row node what each phase
  // gave for the row, a number or the element.
  struct Given {
    std::span<const uint64_t> mains;
    std::span<const uint64_t> phases;
  };
  // Runs a micro-program at element `index` of a tensor of shape `over`.
  uint64_t run(const std::vector<MicroStep>& program, const isa::Shape& over, int64_t index,
               const Given& given, Faulted* fault);
  // Gives element `index` of all results of a node with several products.
  void give_all(int64_t index, std::span<const uint64_t> mains);

 private:
  using Values = std::array<uint64_t, 64>;  // of the steps of a program
  void run_steps(const std::vector<MicroStep>& program, const isa::Shape& over, int64_t index,
                 const Given& given, Faulted* fault, Values& values);
  std::byte* at(uint32_t view, int64_t index, bool writes);

  std::span<const Box> boxes_;
  size_t last_box_ = 0;
};

// Executes a task.
Faulted evaluate(Work& work);

// One step of a pointwise program on operands of its type; `numbers` are its attributes in that type's
// compute type, as bits of `from`'s compute type.
struct PointwiseInput {
  uint64_t x = 0;
  uint64_t y = 0;
  uint64_t z = 0;
  uint64_t p = 0;
  uint64_t q = 0;
};
// The compute type of `from` for reals, else itself: the type of p and q.
isa::DType number_type(isa::DType from);
uint64_t apply(isa::Opcode opcode, isa::DType from, isa::DType to, const PointwiseInput& input);
bool divides_by_zero(isa::Opcode opcode, isa::DType from, const PointwiseInput& input);

// What a reduction gives for a line of elements of `type`.
uint64_t reduced_bits(isa::Opcode opcode, isa::DType type, std::span<const uint64_t> line);

// The families.
Faulted evaluate_move(Work& work);
Faulted evaluate_reduce(Work& work);
Faulted evaluate_rows(Work& work);
// Row `row` of the left operand of a product that makes it.
std::vector<uint64_t> left_row(Work& work, int64_t row);
Faulted evaluate_loss(Work& work);
Faulted evaluate_order(Work& work);
Faulted evaluate_matrix(Work& work);
Faulted evaluate_optimizer(Work& work);
Faulted evaluate_random(Work& work);
Faulted evaluate_control(Work& work);

}  // namespace trek::plan
