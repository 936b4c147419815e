// Shape and type inference: the one place that knows what types an instruction takes and gives.
//
// The parser and the builder use it to type registers, the verifier to check a module that came from a
// file. The rules of ops.def are tables and a shape function per row; infer() applies the table (counts,
// forms, element types, attribute kinds) and then the shape function, which may rely on what the table
// guarantees.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "isa/module.h"

namespace trek::isa {

// What is wrong with one instruction, and at which of its parts.
struct Fault {
  enum class Part : uint8_t { whole, operand, attribute, result };
  ErrorCode code = ErrorCode::OperandCount;
  Part part = Part::whole;
  int index = 0;  // of the operand, attribute or result
  std::string message;
};

// An instruction under inspection.
struct InferContext {
  const Module& module;
  const OpInfo& op;
  std::span<const Type> operands;   // dtype none where an optional one is absent
  std::span<const Ref> attributes;  // one per attribute of the row
  std::vector<Type>& results;       // the shape rule appends them, one per result of the row
  std::optional<Fault>& fault;

  DType t =
      DType::none;  // what T stands for; of rows without operands of type T, the attribute `to`
  DType u = DType::none;

  // Attribute values by name; the row's default where the attribute is absent.
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  bool has(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;  // empty where absent
  DType dtype(std::string_view name) const;                    // none where absent
  int choice(std::string_view name) const;
  // The static value of element i of an `indices` attribute, or nothing where it is a register.
  std::optional<int64_t> static_index(std::string_view name, size_t i) const;
  size_t list_size(std::string_view name) const;

  bool fail(ErrorCode code, Fault::Part part, int index, std::string message);
  bool fail_attribute(ErrorCode code, std::string_view name, std::string message);
  // The element type of result i of the row.
  DType result_dtype(size_t i) const;
  bool give(Shape shape);  // appends the next result as a tensor; refuses a shape beyond the limits
};

// Infers the result types of an instruction with the given operand types, appending to `results`.
// Control instructions that open or close regions, `call` and `return` have their own rules in the
// verifier; for them this checks only the table. Returns the fault, if there is one.
std::optional<Fault> infer(const Module& module, const OpInfo& op,
                           std::span<const Type> operand_types, std::span<const Ref> operands,
                           std::span<const Ref> attributes, std::span<const Value> values,
                           std::vector<Type>& results);

// The type of the constant of a numeric attribute in an instruction whose T is `t`.
DType attribute_type(const AttributeInfo& attribute, DType t);

// Whether a constant is the default of a numeric attribute, which a module stores as absent.
bool is_default(const AttributeInfo& attribute, const Constant& constant, DType t);
// What the attribute `to` of the row is where it is absent: of an index result i64, of a matrix product
// its operands' type, or the accumulator's for integers; none where the row requires it or has none.
DType default_result_type(const OpInfo& op, DType t);

// What T stands for: the type of the first tensor among the operands of rule T, else of the first scalar
// register, else of the first immediate, else the attribute `to`; none where there is none of these.
DType element_type(const OpInfo& op, std::span<const Type> operand_types,
                   std::span<const Ref> operands, std::span<const Ref> attributes);

// Shapes under numpy's broadcasting: aligned at the last axis, equal or 1. Nothing where they clash.
std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b);

}  // namespace trek::isa
