// The instruction table, read by everything: what ops.def says, as data.
//
// Each row of ops.def becomes an enumerator of Opcode and an OpInfo. Parser, printer, codec, verifier,
// manual, cost model and the engines' dispatch are driven by it; none of them lists instructions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "isa/result.h"
#include "isa/types.h"

namespace trek::isa {

enum class Opcode : uint16_t {
#define TREK_OP(Id, number, ...) Id = number,
#include "isa/ops.def"
#undef TREK_OP
};

inline constexpr int kOpcodeCount = 0
#define TREK_OP(Id, number, ...) +1
#include "isa/ops.def"
#undef TREK_OP
    ;

enum class Family : uint8_t { move, pointwise, reduce, matrix, loss, optimizer, random, control };
std::string_view name(Family family);

// The element types an operand may have. Operands with the same letter have the same type; T and U
// are drawn from the row's sets `t` and `u`, C is compute_type(T); index is the scalar type i64; any is any type, each for itself.
enum class TypeRule : uint8_t { T, U, C, boolean, index, any };

// What may stand as an operand. In `either` a tensor, a scalar or an immediate may stand; if no operand
// of an instruction is a tensor, it is a scalar instruction and its result is a scalar register.
enum class Form : uint8_t { tensor, scalar, either };

enum class Access : uint8_t {
  in,
  inout,     // always written in place: `sgd! @w, %g`
  target,    // copied and changed, `%y = update %x, ...`, or changed in place, `update! @x, ...`
  optional,  // named in text: `bias=@b`; reads
  variadic,  // any number, of type T at least one; the last of the row; reads
};

struct OperandInfo {
  std::string_view name;
  TypeRule type = TypeRule::T;
  Form form = Form::tensor;
  Access access = Access::in;
};

// The element type of a result: T, U, compute_type(T), scalar_type(T), bool, or the attribute `to`.
// regions and calls take theirs from elsewhere (special).
enum class ResultRule : uint8_t { T, U, C, S, boolean, to, special };

struct ResultInfo {
  std::string_view name;
  ResultRule type = ResultRule::T;
  bool variadic = false;
};

enum class AttributeKind : uint8_t {
  flag,      // present or not: ta
  integer,   // a static integer: k=5
  integers,  // static integers: size=[2,3]; a lone integer may stand for a list of one
  index,     // an i64, static or a scalar: key=$k
  indices,   // a list of those: at=[$i,0]
  real,      // a number of type C, static or a scalar of that type: lr=$lr
  single,    // the same of type f32
  element,   // a static number of type T: value=0
  dtype,     // to=f32
  choice,    // one of `choices`: reduction=mean
  tail,      // a unary pointwise instruction without required attributes: tail=relu
  string,    // "loss"
  function,  // the callee
  values,    // registers that a region defines
};

struct AttributeInfo {
  std::string_view name;
  AttributeKind kind = AttributeKind::flag;
  bool required = false;
  bool has_default = false;
  double fallback = 0;       // the default of a number, where it has one
  std::string_view meaning;  // a few words for the manual
  std::string_view choices;  // of a choice, separated by '|'; the first is the default
};

// Whether a destination may be the memory of an operand.
enum class AliasRule : uint8_t {
  none,         // never
  elementwise,  // yes, where operand and result have the same type: element i is read before i is written
};

// How far the bits of a result are determined, and by what (isa/README.md).
enum class Numerics : uint8_t {
  exact,     // no rounding: moves, integers, comparisons
  rounded,   // one IEEE operation, rounded once
  function,  // a function of isa/semantics, or a stated sequence of operations
  ordered,   // the reduction order
  dot,       // the dot-product order
  random,    // Philox4x32-10
};
std::string_view name(Numerics numerics);

enum class FlopRule : uint8_t {
  none,
  per_result,   // factor × elements of the first result
  per_operand,  // factor × elements of the first operand
  matmul,       // 2 × M × N × K × batch
};
struct Flops {
  FlopRule rule = FlopRule::none;
  int factor = 0;
};
enum class ByteRule : uint8_t {
  none,
  all,      // every operand read once, every result written once
  results,  // the results are written, and as many bytes read (slices, gathers)
};

struct InferContext;  // isa/infer.h

// Works out the result types of an instruction from its operands and attributes, or says what is wrong.
struct ShapeRule {
  bool (*infer)(InferContext&) = nullptr;
  std::string_view words;  // for the manual and for error messages
};

template <class T, size_t N>
struct Items {  // a short constexpr list
  std::array<T, N> items{};
  size_t count = 0;
  constexpr Items() = default;
  constexpr Items(std::initializer_list<T> list) {
    for (const T& item : list) items[count++] = item;
  }
  constexpr std::span<const T> span() const { return {items.data(), count}; }
  constexpr auto begin() const { return items.data(); }
  constexpr auto end() const { return items.data() + count; }
  constexpr size_t size() const { return count; }
  constexpr bool empty() const { return count == 0; }
  constexpr const T& operator[](size_t i) const { return items[i]; }
};

struct OpInfo {
  std::string_view mnemonic;
  Family family = Family::move;
  Items<OperandInfo, 6> operands;
  Items<ResultInfo, 4> results;
  Items<AttributeInfo, 8> attributes;
  DTypeSet t;  // what T may be
  DTypeSet u;  // what U may be
  ShapeRule shape;
  AliasRule alias = AliasRule::none;
  Items<TrapCode, 2> traps;
  Numerics numerics = Numerics::exact;
  Flops flops;
  ByteRule bytes = ByteRule::all;
  std::string_view summary;  // one sentence
  std::string_view details;  // the exact meaning where the sentence does not give it
  std::string_view id;       // the enumerator's name
  Opcode opcode{};

  bool opens_region() const {
    return opcode == Opcode::Loop || opcode == Opcode::While || opcode == Opcode::If ||
           opcode == Opcode::Else;
  }
  bool is_scalar_capable() const { return !operands.empty() && operands[0].form == Form::either; }
  // The position of the attribute `wanted`, or -1.
  int attribute(std::string_view wanted) const;
};

// All rows, by ascending opcode.
std::span<const OpInfo> all_ops();
// The row of an opcode, or null for a number that no row has.
const OpInfo* find_op(uint16_t number);
const OpInfo* find_op(std::string_view mnemonic);
const OpInfo& info(Opcode opcode);
// 0 .. kOpcodeCount - 1, in the order of all_ops(): an index for tables.
int index_of(Opcode opcode);
// Whether an instruction may be the `tail` of a matmul: unary, pointwise, floats, no required attribute.
bool is_tail(const OpInfo& op);

}  // namespace trek::isa
