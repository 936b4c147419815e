// Makes the record of a descriptor: its tables grow here, and are laid behind the Node at the end.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "emulator/device/describe.h"
#include "isa/types.h"

namespace trek::device {

// A size and a stride in elements.
struct Dimension {
  int64_t size = 1;
  int64_t stride = 0;
};
using Dimensions = std::vector<Dimension>;

// The row-major strides of a shape.
Dimensions dimensions_of(const isa::Shape& shape);
// How elements of `to` read a tensor of shape `from` under broadcasting.
Dimensions broadcast(const isa::Shape& to, const isa::Shape& from);

// A program before its slots are known.
struct Draft {
  struct Input {
    enum class Kind : uint8_t { none, main, number, step, operand, scalar };
    Kind kind = Kind::none;
    uint32_t index = 0;
  };
  struct Step {
    isa::Opcode opcode{};
    isa::DType from = isa::DType::none;
    isa::DType to = isa::DType::none;
    Input inputs[3];
    Input numbers[2];
  };
  std::vector<Step> steps;
  Input result;
  isa::DType dtype = isa::DType::none;  // of the result
};

class Record {
 public:
  Record(const plan::Plan& plan, const plan::Node& of) : plan_(plan), of_(of) {}

  Node node{};
  std::optional<Phases> phases;
  std::string refusal;

  // An index map over an index space of these dimensions, outermost first.
  Map map(const Dimensions& dimensions);
  // Exactly these axes, none left out or merged.
  Map axes(const Dimensions& dimensions);

  // Adds an entry to the table of operands, of results.
  uint32_t operand(plan::Operand from, const isa::Type& type, Map map);
  // The same memory as an operand's, or as a result's, from `bytes` on, by another map.
  uint32_t part_of_operand(uint32_t entry, int64_t bytes, Map map);
  uint32_t part_of_result(uint32_t entry, int64_t bytes, Map map);
  void result(uint32_t index);
  // Of a result's entry: the node's elements are from `elements` on, by a map.
  void put_result(uint32_t entry, int64_t elements, Map map);
  // Of an operand's entry: its first element is the one that was `elements` behind it.
  void begin_at(uint32_t entry, int64_t elements);
  // Of an entry of the table of operands: its type; whether it is read at the result's own elements, or at
  // the columns of a result of `columns` of them.
  isa::DType operand_type(uint32_t entry) const {
    return static_cast<isa::DType>(operands_[entry].dtype);
  }
  bool reads_same(uint32_t entry) const { return operands_[entry].map.kind == Map::same; }
  // Whether it is a tensor whose elements are the node's own, in order.
  bool lies_in_order(uint32_t entry) const {
    return reads_same(entry) && operands_[entry].scalar == kNoScalar;
  }
  bool reads_row(uint32_t entry, int64_t columns) const;
  // 1 + the scalar that is the counter of slices that it has; 0: none.
  uint8_t counter_of_slices() const { return counter_of_slices_; }
  // Where in the arena it begins.
  int64_t offset(uint32_t entry) const { return operands_[entry].offset; }
  // Of an entry of the table of scalars.
  bool is_constant(uint32_t scalar) const { return scalars_[scalar].kind == Scalar::constant; }
  // The Scalar that `from` is as a `want`; of a real attribute that is not given, its
  // default. A row of equal ones is one.
  uint32_t scalar(plan::Operand from, isa::DType want);
  uint32_t constant(isa::DType type, uint64_t bits);
  // Appends to the unit's attributes, which stand one after the other.
  void attribute(uint32_t scalar_index);
  void real_attribute(std::string_view name, isa::DType want);
  void index_attribute(std::string_view name);
  void number(int64_t value) { numbers_.push_back(value); }

  // The steps of a plan's program over elements of `over`, appended to a draft; `main` is what its main
  // value is there.
  void append(Draft& draft, const std::vector<plan::MicroStep>& program, const isa::Shape& over,
              Draft::Input main);
  // From now on what an operand or a phase of the plan's node gives is held array `array`, a main value.
  void hold_operand(uint32_t operand, uint32_t array) { held_operands_[operand] = array; }
  void hold_phase(uint32_t phase, uint32_t array) { held_phases_[phase] = array; }
  // Whether a draft has a narrow form, and the draft as a program of either form.
  bool fits_narrow(const Draft& draft, isa::DType main) const;
  Program program(const Draft& draft, bool narrow) {
    return program(draft, narrow, narrow ? kNarrowSlots : kWideSlots);
  }
  Program row_program(const Draft& draft) { return program(draft, true, kRowSlots); }
  // Writes a draft of a product of f32, whose lines have n elements, as a tail that matrix_f32.h has in
  // registers, where it is one.
  void plain_tail(const Draft& draft, isa::DType result, int64_t n, Cut& cut) const;

  // Appends the program that joins several thin products, whose slots are known.
  void group_program(const Draft& draft, ThinGroup& to);

  // The record.
  Described finish();

 private:
  isa::DType input_type(const Draft& draft, Draft::Input input, isa::DType main) const;
  int slots_of(const Draft& draft, bool narrow, std::vector<int>* of_steps,
               std::map<uint32_t, int>* of_loads) const;
  uint8_t summed(const Draft& draft) const;
  bool is_direct(const Draft& draft) const;
  Program program(const Draft& draft, bool narrow, uint32_t most_slots);
  uint32_t add(const Scalar& scalar);
  bool is_magic(Map map) const;
  bool keeps_fours(Map map) const;
  bool is_flat(const Program& program) const;
  uint32_t part(Operand of, int64_t bytes, Map map);
  void lie_in(const plan::View& view, Operand& entry);
  Quick way_of(const Program& program) const;
  Quick quick() const;

  const plan::Plan& plan_;
  const plan::Node& of_;
  std::vector<Operand> operands_;
  std::vector<Operand> results_;
  std::vector<Scalar> scalars_;
  std::vector<uint32_t> attributes_;
  std::vector<Step> steps_;
  std::vector<Load> loads_;
  std::vector<Axis> axes_;
  std::vector<int64_t> numbers_;
  std::vector<uint32_t> counters_;
  uint8_t counter_of_slices_ = 0;
  std::map<uint32_t, uint32_t> held_operands_;
  std::map<uint32_t, uint32_t> held_phases_;
};

// The register form of a constant.
uint64_t register_form(const isa::Constant& constant);

}  // namespace trek::device
