// Operands as they are written, before their instruction is known: references and immediates.
#pragma once

#include "assembler/expression.h"
#include "assembler/scopes.h"

namespace trek::assembler {

struct Operand {
  enum class Kind : uint8_t {
    absent,
    reference,
    value,
    broken,  // a register whose definition failed: what uses it is passed over in silence
  };
  Kind kind = Kind::absent;
  isa::Ref ref;
  Value value;
  isa::SourceRange where;
  std::string_view spelling;  // of a value, see Expressions::spelling()

  bool is_value() const { return kind == Kind::value; }
};

class Operands {
 public:
  Operands(Core& core, Expressions& expressions, Scopes& scopes)
      : core_(core), expressions_(expressions), scopes_(scopes) {}

  // A register, a tensor, a scalar or a constant expression; false, reported, if it is none.
  bool parse(Operand& operand);
  // A name to define or to write to: %x, $x or @x.
  bool parse_name(Name& name, std::string_view wanted);
  // The Ref of an operand; a value becomes a constant of type `wanted`, or is reported: out of range, or
  // with `code` of another type.
  std::optional<isa::Ref> resolve(const Operand& operand, isa::DType wanted,
                                  isa::ErrorCode code = isa::ErrorCode::OperandType);
  // The type of an operand; of a value its natural one.
  isa::Type type_of(const Operand& operand) const;

 private:
  bool parse_reference(Operand& operand);
  bool undefined(const Name& name);

  Core& core_;
  Expressions& expressions_;
  Scopes& scopes_;
};

}  // namespace trek::assembler
