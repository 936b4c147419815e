// One random instruction of a given row: its shape rule makes operands whose shapes go together and the
// attributes that depend on them, the row says the rest.
#include <algorithm>

#include "isa/convert.h"
#include "isa/infer.h"
#include "isa/shape_rules.h"
#include "tests/property/random_module.h"

namespace trek::property {

using isa::Access;
using isa::AttributeInfo;
using isa::AttributeKind;
using isa::DType;
using isa::Form;
using isa::Module;
using isa::Opcode;
using isa::OperandInfo;
using isa::OpInfo;
using isa::Ref;
using isa::RefKind;
using isa::Shape;
using isa::Type;
using isa::TypeRule;

namespace {

namespace rules = isa::shape;

class Draft {
 public:
  Draft(RandomWorld& world, const Module& module, const OpInfo& op)
      : world_(world),
        module_(module),
        op_(op),
        attributes_(op.attributes.size()),
        set_(op.attributes.size()) {
    if (!op.t.empty()) t_ = world.dtype(op.t);
    if (!op.u.empty()) u_ = world.dtype(op.u);
  }

  bool add() {
    plan();
    if (changes_what_it_reads()) return false;
    fill_attributes();
    std::vector<Type> types;
    for (Ref ref : operands_) types.push_back(ref ? build().type_of(ref) : Type{});
    while (operands_.size() < op_.operands.size() &&
           op_.operands[operands_.size()].access == Access::optional) {
      operands_.emplace_back();
      types.emplace_back();
    }
    if (!choose_destinations(types)) return false;
    if (build().add(op_.opcode, operands_, attributes_, destinations_)) return false;
    for (Ref result : build().results())
      if (result.is(RefKind::value) &&
          std::find(destinations_.begin(), destinations_.end(), result) == destinations_.end())
        world_.see(result);
    return true;
  }

 private:
  isa::Builder& build() { return world_.build(); }
  Random& random() { return world_.random(); }
  bool has_rule(const isa::ShapeRule& rule) const { return op_.shape.infer == rule.infer; }

  // ---- attributes --------------------------------------------------------------------------------

  void set(std::string_view name, Ref ref) {
    const int i = op_.attribute(name);
    if (i < 0) return;
    attributes_[static_cast<size_t>(i)] = ref;
    set_[static_cast<size_t>(i)] = true;
  }
  void set(std::string_view name, int64_t value) { set(name, build().integer(value)); }
  void set(std::string_view name, const std::vector<int64_t>& values) {
    set(name, build().integers(values));
  }
  void set(std::string_view name, const Shape& shape) { set(name, build().integers(shape.dims())); }
  void set_flag(std::string_view name, bool on) { set(name, on ? isa::Builder::number(1) : Ref{}); }
  // An axis, now and then counted from the end.
  int set_axis(int rank) {
    const auto axis = static_cast<int>(random().below(static_cast<uint64_t>(std::max(rank, 1))));
    set("axis", random().chance(30) ? axis - rank : axis);
    return axis;
  }
  // A box of `size` within `shape`, from a static place or a register that may lead out of it.
  void set_place(const Shape& shape, const Shape& size, const std::vector<int64_t>& strides = {}) {
    std::vector<Ref> at;
    for (int i = 0; i < shape.rank(); ++i) {
      const int64_t stride = strides.empty() ? 1 : strides[static_cast<size_t>(i)];
      const int64_t span = size[i] == 0 ? 0 : (size[i] - 1) * stride + 1;
      at.push_back(random().chance(20) ? world_.scalar(DType::i64)
                                       : build().integer(random().between(
                                             0, std::max<int64_t>(0, shape[i] - span))));
    }
    set("at", build().list(at));
  }

  void fill_attributes() {
    for (size_t i = 0; i < attributes_.size(); ++i)
      if (!set_[i] && (op_.attributes[i].required || random().chance(40)))
        attributes_[i] = attribute(op_.attributes[i]);
  }

  Ref attribute(const AttributeInfo& info) {
    switch (info.kind) {
      case AttributeKind::flag:
        return isa::Builder::number(1);
      case AttributeKind::integer:
        return build().integer(random().between(0, 3));
      case AttributeKind::integers:
        return Ref{};
      case AttributeKind::index:
        return random().chance(30) ? world_.scalar(DType::i64)
                                   : build().integer(random().between(1, 9));
      case AttributeKind::indices:
        return build().list({});
      case AttributeKind::real:
      case AttributeKind::single: {
        const DType dtype = isa::attribute_type(info, isa::is_real(t_) ? t_ : DType::f32);
        constexpr double kUsual[] = {0.5, 0.1, 0.001, 0.25, 0.9};
        if (random().chance(70)) return build().real(dtype, random().pick(kUsual));
        return world_.scalar(dtype);
      }
      case AttributeKind::element:
        return world_.immediate(t_);
      case AttributeKind::dtype:
        return isa::Builder::dtype(static_cast<DType>(random().between(1, isa::kDTypeCount - 1)));
      case AttributeKind::choice: {
        const auto bars = std::count(info.choices.begin(), info.choices.end(), '|');
        return isa::Builder::number(static_cast<uint32_t>(random().between(0, bars)));
      }
      case AttributeKind::tail:
        return tail();
      case AttributeKind::string:
        return text();
      case AttributeKind::function:
      case AttributeKind::values:
        break;
    }
    return {};
  }

  Ref tail() {
    std::vector<Opcode> tails;
    for (const OpInfo& op : isa::all_ops())
      if (isa::is_tail(op)) tails.push_back(op.opcode);
    return isa::Builder::number(static_cast<uint32_t>(random().pick(tails)));
  }

  Ref text() {
    constexpr std::string_view kTexts[] = {"loss", "", "a \"quoted\" {name}", "line\n\ttab\\",
                                           "µ\x01\x7f;"};
    return {RefKind::string, build().string(random().pick(kTexts))};
  }

  // ---- operands ----------------------------------------------------------------------------------

  DType dtype_of(TypeRule rule) {
    switch (rule) {
      case TypeRule::T:
        return t_;
      case TypeRule::U:
        return u_;
      case TypeRule::C:
        return isa::compute_type(t_);
      case TypeRule::boolean:
        return DType::boolean;
      case TypeRule::index:
        return DType::i64;
      case TypeRule::any:
        return DType::none;
    }
    return DType::none;
  }

  // Operand i of this shape: a place to write if the row says so, else any tensor.
  void operand(size_t i, const Shape& shape) {
    const OperandInfo& info = op_.operands[std::min(i, op_.operands.size() - 1)];
    const Type type = Type::tensor(dtype_of(info.type), shape);
    if (info.access == Access::inout)
      operands_.push_back(world_.place(type, operands_));
    else
      operands_.push_back(world_.tensor(type));
  }

  Ref first_tensor() {
    const Ref x = world_.some_tensor(isa::DTypeSet{t_});
    operands_.push_back(x);
    return x;
  }
  Shape shape_of(Ref ref) { return build().type_of(ref).shape; }

  // A shape that broadcasts with `shape`.
  Shape broadcastable(const Shape& shape) {
    Shape out;
    const auto dropped = static_cast<int>(
        random().chance(30) ? random().below(static_cast<uint64_t>(shape.rank()) + 1) : 0);
    for (int i = dropped; i < shape.rank(); ++i) out.push_back(random().chance(25) ? 1 : shape[i]);
    return out;
  }

  bool changes_what_it_reads() const {
    for (size_t i = 0; i < operands_.size() && i < op_.operands.size(); ++i)
      if (op_.operands[i].access == Access::inout &&
          std::count(operands_.begin(), operands_.end(), operands_[i]) > 1)
        return true;
    return false;
  }

  void elementwise() {
    const auto count = op_.operands.size();
    if (op_.operands[0].form == Form::either && random().chance(20)) return scalars();
    Shape shape;
    for (size_t i = 0; i < count; ++i) {
      const OperandInfo& info = op_.operands[i];
      const DType dtype = dtype_of(info.type);
      if (i == 0) {
        const Ref x =
            dtype == t_ ? first_tensor()
                        : (operands_.push_back(world_.tensor(Type::tensor(dtype, world_.shape()))),
                           operands_.back());
        shape = shape_of(x);
      } else if (info.form == Form::either && random().chance(25)) {
        const bool is_immediate = random().chance(50) || dtype != t_;
        operands_.push_back(is_immediate ? world_.immediate(dtype)
                                         : world_.scalar(isa::scalar_type(t_)));
        // An immediate has the element type; a register its scalar type.
        if (operands_.back().is(RefKind::constant)) operands_.back() = world_.immediate(dtype);
      } else {
        operands_.push_back(world_.tensor(
            Type::tensor(dtype, has_rule(rules::kBroadcast) ? broadcastable(shape) : shape)));
      }
    }
  }

  void scalars() {
    constexpr DType kScalars[] = {DType::i64, DType::f32, DType::f64, DType::boolean};
    for (int attempt = 0; attempt < 8; ++attempt)
      if (const DType dtype = random().pick(kScalars); op_.t.contains(dtype)) t_ = dtype;
    for (const OperandInfo& info : op_.operands)
      operands_.push_back(world_.scalar(dtype_of(info.type)));
  }

  // ---- plans -------------------------------------------------------------------------------------

  void plan() {
    if (has_rule(rules::kGiven) || has_rule(rules::kIota)) return plan_given();
    if (has_rule(rules::kReshape)) return plan_reshape();
    if (has_rule(rules::kPermute)) return plan_permute();
    if (has_rule(rules::kSlice)) return plan_slice();
    if (has_rule(rules::kUpdate)) return plan_update();
    if (has_rule(rules::kConcat)) return plan_concat();
    if (has_rule(rules::kPad)) return plan_pad();
    if (has_rule(rules::kGather) || has_rule(rules::kScatter)) return plan_gather();
    if (has_rule(rules::kBroadcastTo)) return plan_broadcast_to();
    if (has_rule(rules::kOneHot)) return plan_one_hot();
    if (has_rule(rules::kReduce)) return plan_reduce();
    if (has_rule(rules::kTopK)) return plan_top_k();
    if (has_rule(rules::kMatmul)) return plan_matmul();
    if (has_rule(rules::kCrossEntropy) || has_rule(rules::kCrossEntropyGrad) ||
        has_rule(rules::kCrossEntropyWithGrad))
      return plan_cross_entropy();
    if (has_rule(rules::kClipNorm)) return plan_several();
    if (has_rule(rules::kPermutation)) return set("n", random().between(0, 40));
    if (has_rule(rules::kLoad) || has_rule(rules::kStore)) return plan_element();
    if (has_rule(rules::kNext)) {
      operands_.push_back(world_.stream(Type::tensor(t_, world_.shape())));
      return;
    }
    plan_alike();
  }

  // Operands of one shape, or scalars where the row takes them.
  void plan_alike() {
    if (op_.operands.empty()) return;
    if (op_.operands[0].type == TypeRule::any) {  // emit
      operands_.push_back(
          world_.value(random().chance(30) ? Type::make_scalar(DType::f64) : world_.some_type()));
      return;
    }
    if (op_.operands[0].form == Form::either) return elementwise();
    const Shape shape = shape_of(world_.some_tensor(isa::DTypeSet{t_}));
    for (size_t i = 0; i < op_.operands.size(); ++i) operand(i, shape);
    if (op_.attribute("axis") >= 0) set_axis(shape.rank());
  }

  void plan_given() {
    const Shape shape = world_.shape();
    set("shape", shape);
    if (has_rule(rules::kIota)) set_axis(shape.rank());
    DType to = op_.t.empty() ? static_cast<DType>(random().between(1, isa::kDTypeCount - 1)) : t_;
    if (op_.attribute("to") >= 0) set("to", isa::Builder::dtype(to));
    for (size_t i = 0; i < op_.operands.size(); ++i) {
      constexpr DType kWritten[] = {DType::i64, DType::f32, DType::f64, DType::boolean};
      operands_.push_back(world_.scalar(random().pick(kWritten)));
    }
  }

  void plan_reshape() {
    const Shape shape = shape_of(first_tensor());
    std::vector<int64_t> dims;
    int64_t left = shape.elements();
    while (dims.size() < 3 && left > 1) {
      constexpr int64_t kFactors[] = {1, 2, 3, 4, 5, 7};
      const int64_t factor = random().pick(kFactors);
      if (left % factor != 0) continue;
      dims.push_back(factor);
      left /= factor;
    }
    dims.push_back(left > 0 && random().chance(40) ? -1 : left);
    set("shape", dims);
  }

  void plan_permute() {
    const int rank = shape_of(first_tensor()).rank();
    std::vector<int64_t> axes;
    for (int i = 0; i < rank; ++i) axes.insert(axes.begin() + random().between(0, i), i);
    set("axes", axes);
  }

  void plan_slice() {
    const Shape shape = shape_of(first_tensor());
    std::vector<int64_t> strides;
    Shape size;
    for (int64_t dim : shape) {
      strides.push_back(random().chance(70) ? 1 : random().between(1, 3));
      size.push_back(random().between(0, dim == 0 ? 0 : (dim - 1) / strides.back() + 1));
    }
    set("size", size);
    if (random().chance(50)) {
      set("stride", strides);
    } else {
      set("stride", Ref{});
      strides.clear();
    }
    set_place(shape, size, strides);
  }

  void plan_update() {
    const Shape shape = shape_of(first_tensor());
    Shape box;
    for (int64_t dim : shape) box.push_back(random().between(0, dim));
    operand(1, box);
    set_place(shape, box);
  }

  void plan_concat() {
    const Shape shape = shape_of(first_tensor());
    const int axis = set_axis(shape.rank());
    for (uint64_t i = random().below(3); i > 0 && shape.rank() > 0; --i) {
      Shape other = shape;
      other[axis] = random().between(0, 4);
      operand(operands_.size(), other);
    }
  }

  void plan_pad() {
    const Shape shape = shape_of(first_tensor());
    for (std::string_view side : {"low", "high"}) {
      std::vector<int64_t> amounts;
      for (int i = 0; i < shape.rank(); ++i) amounts.push_back(random().between(0, 2));
      set(side, amounts);
    }
  }

  void plan_gather() {
    const Shape shape = shape_of(first_tensor());
    const int axis = set_axis(shape.rank());
    if (shape.rank() == 0) return;
    const Shape index = world_.shape_of_rank(static_cast<int>(random().below(2)));
    operands_.push_back(world_.index_tensor(u_, index, shape[axis]));
    if (!has_rule(rules::kScatter)) return;
    Shape picked;
    for (int i = 0; i < axis; ++i) picked.push_back(shape[i]);
    for (int64_t dim : index) picked.push_back(dim);
    for (int i = axis + 1; i < shape.rank(); ++i) picked.push_back(shape[i]);
    operand(2, picked);
  }

  void plan_broadcast_to() {
    const Shape shape = world_.shape();
    operand(0, broadcastable(shape));
    set("shape", shape);
  }

  void plan_one_hot() {
    const int64_t depth = random().between(1, 5);
    operands_.push_back(
        world_.index_tensor(u_, world_.shape_of_rank(static_cast<int>(random().below(3))), depth));
    set("depth", depth);
    set("to", isa::Builder::dtype(static_cast<DType>(random().between(1, isa::kDTypeCount - 1))));
  }

  void plan_reduce() {
    const Shape shape = shape_of(first_tensor());
    std::vector<int64_t> axes;
    for (int i = 0; i < shape.rank(); ++i)
      if (random().chance(50)) axes.push_back(random().chance(20) ? i - shape.rank() : i);
    if (random().chance(70))
      set("axis", axes);
    else
      set("axis", Ref{});
    index_type();
  }

  // The type of an index result: an integer type, or the default.
  void index_type() {
    constexpr DType kIndices[] = {DType::i32, DType::u8, DType::i64, DType::u64};
    set("to", random().chance(50) ? Ref{} : isa::Builder::dtype(random().pick(kIndices)));
  }

  void plan_top_k() {
    const Shape shape = shape_of(first_tensor());
    const int axis = set_axis(shape.rank());
    set("k", shape.rank() == 0 ? 0 : random().between(0, shape[axis]));
    index_type();
  }

  void plan_matmul() {
    const bool ta = random().chance(30);
    const bool tb = random().chance(30);
    const int64_t m = random().between(1, 6);
    const int64_t n = random().between(1, 6);
    const int64_t k = random().between(0, 6);
    const int64_t batch = random().between(1, 3);
    const auto matrix = [&](int64_t rows, int64_t columns) {
      Shape shape;
      if (random().chance(30)) shape.push_back(random().chance(50) ? 1 : batch);
      shape.push_back(rows);
      shape.push_back(columns);
      return shape;
    };
    operand(0, ta ? matrix(k, m) : matrix(m, k));
    operand(1, tb ? matrix(n, k) : matrix(k, n));
    set_flag("ta", ta);
    set_flag("tb", tb);
    const bool reals = isa::is_real(t_);
    const DType accumulator = reals                     ? isa::compute_type(t_)
                              : isa::byte_size(t_) == 8 ? DType::i64
                                                        : DType::i32;
    operands_.push_back(random().chance(60)
                            ? Ref{}
                            : world_.tensor(Type::tensor(
                                  accumulator, random().chance(50) ? Shape{n} : Shape{1, n})));
    constexpr DType kReals[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
    set("to", random().chance(60) ? Ref{} : isa::Builder::dtype(random().pick(kReals)));
    if (reals) return;
    set("scale", Ref{});
    set("tail", Ref{});
  }

  void plan_cross_entropy() {
    Shape rows = world_.shape_of_rank(static_cast<int>(random().below(3)));
    const int64_t classes = random().between(1, 6);
    Shape logits = rows;
    logits.push_back(classes);
    const auto reduction = static_cast<uint32_t>(random().below(3));
    set("reduction", isa::Builder::number(reduction));
    if (has_rule(rules::kCrossEntropyGrad)) operand(0, reduction == 2 ? rows : Shape{});
    operands_.push_back(world_.tensor(Type::tensor(t_, logits)));
    operands_.push_back(world_.index_tensor(u_, rows, classes));
  }

  void plan_several() {
    for (uint64_t i = random().below(3) + 1; i > 0; --i) first_tensor();
  }

  void plan_element() {
    const Shape shape = shape_of(world_.some_tensor(isa::DTypeSet{t_}));
    operand(0, shape);
    Shape one;
    for (int i = 0; i < shape.rank(); ++i) one.push_back(1);
    set_place(shape, one);
    if (has_rule(rules::kStore)) operands_.push_back(world_.scalar(isa::scalar_type(t_)));
  }

  // ---- destinations ------------------------------------------------------------------------------

  // Now and then a result goes to a tensor of the module, or changes the first operand in place.
  bool choose_destinations(const std::vector<Type>& types) {
    std::vector<Type> results;
    if (isa::infer(module_, op_, types, operands_, attributes_, build().function().values, results))
      return false;
    for (const Type& result : results) {
      constexpr int64_t kMost = 8;  // a result may be somewhat larger than what tensors are made as
      if (!result.scalar && result.elements() > kMost * world_.options().elements) return false;
    }
    if (results.empty() || !random().chance(20) || results[0].scalar) return true;
    if (!op_.operands.empty() && op_.operands[0].access == Access::target && random().chance(60)) {
      const Ref target = world_.place(results[0], std::span(operands_).subspan(1));
      operands_[0] = target;
      destinations_.push_back(target);
      return true;
    }
    for (const Type& result : results) {
      std::vector<Ref> taken = operands_;
      taken.insert(taken.end(), destinations_.begin(), destinations_.end());
      destinations_.push_back(result.scalar || random().chance(30) ? Ref{}
                                                                   : world_.place(result, taken));
    }
    return true;
  }

  RandomWorld& world_;
  const Module& module_;
  const OpInfo& op_;
  DType t_ = DType::none;
  DType u_ = DType::none;
  std::vector<Ref> operands_;
  std::vector<Ref> attributes_;
  std::vector<bool> set_;
  std::vector<Ref> destinations_;
};

}  // namespace

bool add_random_instruction(RandomWorld& world, const Module& module, const OpInfo& op) {
  return Draft(world, module, op).add();
}

}  // namespace trek::property
