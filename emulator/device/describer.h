// What makes a descriptor: a function per kind of node, and what these share. Host only.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "emulator/device/describe.h"
#include "emulator/device/record.h"
#include "emulator/plan/geometry.h"

namespace trek::device {

// One node's description in the making. What all kinds of nodes share is in describe.cpp, as are the smallest kinds;
// the others have a file each.
class Describer {
 public:
  Describer(const plan::Plan& plan, uint32_t index)
      : plan_(plan), of_(plan.nodes[index]), record_(plan, of_), node_(record_.node) {}
  Described run();

 private:
  const isa::Type& type(size_t i) const { return of_.operand_types[i]; }
  const isa::Type& result_type(size_t i) const { return plan_.view(of_.results[i]).type; }
  isa::DType main_type() const { return of_.main_type.dtype; }
  int axis_in(const isa::Shape& shape) const;
  int64_t integer(std::string_view name) const;

  void own_operands();
  void programs(const std::vector<Draft>& fetch, const std::vector<Draft>& deliver,
                isa::DType main);
  Draft plain(size_t operand);
  Draft fetch_source();
  Draft converted(isa::DType from, isa::DType to);
  Draft tail(isa::DType from);

  // What the units want: for one kind of node each, or for several that are alike.
  void describe_program();
  void describe_move();
  void describe_box(const isa::Shape& shape, const isa::Shape& size, bool strided);
  void describe_axis(const isa::Shape& shape);
  void describe_concat();
  void describe_pad();
  void describe_filling();
  void describe_update();
  std::optional<int64_t> known_box(const isa::Shape& shape, const isa::Shape& size,
                                   bool strided) const;
  void quick_move(uint32_t operand, int64_t from_element, Map from, int64_t to_element, Map to);
  plan::Lines describe_lines();
  void describe_stride(const plan::Lines& lines, const Draft& fetch);
  void describe_reduction();
  std::vector<uint32_t> held_operands() const;
  bool is_column(size_t i) const;
  const std::vector<plan::MicroStep>& last_of_rows() const {
    return of_.by_rows() ? of_.chain : of_.prologue;
  }
  void describe_phase(const plan::Phase& from, Phase& to);
  void describe_phases();
  void describe_form();
  void hold_columns();
  void describe_softmax();
  void describe_cross_entropy();
  void describe_order();
  bool is_immutable(size_t operand) const;
  bool is_met(const Node& node) const;
  // Thin::in_fours: under fast numerics where a device interprets and has words; tasks then wait for little else.
  uint8_t in_fours() const {
    return plan_.fast && plan_.device.interprets && plan_.device.has_tags ? 1 : 0;
  }
  Draft product_draft(const plan::Factors& of, isa::DType accumulator);
  void describe_group();
  void describe_put();
  void describe_copies();
  void describe_runs();
  bool describe_few(const Cut& cut);
  void describe_matrix();
  bool stands(size_t operand) const;
  void describe_boxes();
  void describe_optimizer();
  void describe_random();
  void describe_exchange();

  const plan::Plan& plan_;
  const plan::Node& of_;
  Record record_;
  Node& node_;
  int64_t scratch_ = 0;  // of all tasks
  std::vector<TensorMap> maps_;
};

}  // namespace trek::device
