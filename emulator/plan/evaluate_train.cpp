// Matrix products, optimizers and random numbers.
#include <optional>

#include "emulator/plan/evaluate.h"
#include "emulator/plan/runs.h"
#include "emulator/plan/take_gradients.h"
#include "isa/semantics/dot.h"
#include "isa/semantics/elements.h"
#include "isa/semantics/optimizer.h"
#include "isa/semantics/random.h"
#include "isa/semantics/reduce.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Opcode;
using isa::TrapCode;

// A dot product in the accumulator's type A.
template <typename A>
class Accumulator {
 public:
  using Dot = semantics::Dot<std::conditional_t<semantics::kIsFloat<A>, A, float>>;

  Accumulator() = default;
  // Of floats: goes on behind so many products.
  Accumulator(typename Dot::Begun from, int64_t count) : dot_(from, count) {}

  void push(A a, A b) {
    if constexpr (semantics::kIsFloat<A>)
      dot_.push(a, b);
    else
      sum_ = semantics::add(sum_, semantics::mul(a, b));
  }
  A finish() {
    if constexpr (semantics::kIsFloat<A>)
      return dot_.finish();
    else
      return sum_;
  }
  typename Dot::Begun begun() const { return dot_.begun(); }

 private:
  Dot dot_;
  A sum_{};
};

template <typename A>
DType accumulator_type() {
  if (sizeof(A) == 8) return semantics::kIsFloat<A> ? DType::f64 : DType::i64;
  return semantics::kIsFloat<A> ? DType::f32 : DType::i32;
}

// The element of a batched matrix operand at (row, column) of the matrix that `batch` of the result reads.
int64_t matrix_element(const isa::Shape& shape, const isa::Shape& out, int64_t batch, int64_t row,
                       int64_t column) {
  const int rank = shape.rank();
  const isa::Shape batches(out.dims().first(static_cast<size_t>(out.rank() - 2)));
  const isa::Shape mine(shape.dims().first(static_cast<size_t>(rank - 2)));
  return (broadcast_index(batches, mine, batch) * shape[rank - 2] + row) * shape[rank - 1] + column;
}

// Adds what one of a node's products has at (m, n), of the k that `shape` has. `left` is the row of the left operand where the
// node makes it, else nothing.
template <typename A>
void add_products(Work& work, const Factors& of, const MatrixShape& shape, int64_t batch, int64_t m,
                  int64_t n, std::span<const uint64_t> left, Accumulator<A>& dot) {
  const isa::Shape& out = of.type.shape;
  const isa::Type& a = work.type(0);
  const isa::Type& b = work.type(of.right);
  for (int64_t k = shape.first_k; k < shape.first_k + shape.k; ++k) {
    const int64_t at = matrix_element(a.shape, out, batch, shape.ta ? k : m, shape.ta ? m : k);
    const int64_t bt = matrix_element(b.shape, out, batch, shape.tb ? n : k, shape.tb ? k : n);
    const uint64_t x = left.empty() ? work.operand(0, at) : left[static_cast<size_t>(k)];
    dot.push(value_as<A>(a.dtype, x), value_as<A>(b.dtype, work.operand(of.right, bt)));
  }
}

// What a sum becomes by the product's own scale, bias and tail, as bits of its type.
template <typename A>
uint64_t product_element(Work& work, const Factors& of, const MatrixShape& shape, int64_t batch,
                         int64_t m, int64_t n, A value) {
  const isa::Shape& out = of.type.shape;
  const Attribute& scale = attribute(Opcode::Matmul, *of.attributes, "scale");
  const Attribute& tail = attribute(Opcode::Matmul, *of.attributes, "tail");
  const DType type = accumulator_type<A>();
  const int64_t index = (batch * shape.m + m) * shape.n + n;
  if (scale.given) value = semantics::mul(value, work.real<A>(scale));
  if (of.bias != kNone) {
    const isa::Type& bias = work.type(of.bias);
    const uint64_t bits = work.operand(of.bias, broadcast_index(out, bias.shape, index));
    value = semantics::add(value, value_as<A>(bias.dtype, bits));
  }
  uint64_t bits = pack(value);
  if (tail.given) {
    MicroStep step;
    step.opcode = static_cast<Opcode>(tail.items[0].index);
    step.from = step.to = type;
    step.inputs[0].from = MicroStep::From::main;
    bits = work.run({step}, out, index, {{&bits, 1}, {}}, nullptr);
  }
  return cast_bits(type, of.type.dtype, bits);
}

// Of a product whose tiles' k are cut into runs: sums of the tile that a run begins. Of an ordered one those of segments,
// and behind these, where the line has both, the totals.
template <typename A>
void begin_tile(Work& work) {
  MatrixShape shape = matrix_shape(work.node);
  const MatrixTiles& tiles = work.plan.tilings[work.node.tiles];
  const Runs runs(shape, tiles);
  const int64_t run = work.task.first;
  const MatrixTile tile = matrix_tile(shape, tiles, runs.tile_begun(run));
  const int64_t totals = totals_of_run(shape, tiles);
  int64_t index = run * line_of_run(shape, tiles);
  take_depth(shape, runs.begun(run));
  for (int64_t m = tile.row; m < tile.row + tile.rows; ++m)
    for (int64_t n = tile.column; n < tile.column + tile.columns; ++n, ++index) {
      Accumulator<A> dot;
      add_products(work, factors_of(work.node, 0), shape, tile.batch, m, n, {}, dot);
      const auto begun = dot.begun();
      const auto write = [&](int64_t at, auto sum) {
        work.write(work.node.results[0], at, pack(static_cast<A>(sum)));
      };
      write(index, is_ordered(tiles) ? static_cast<A>(begun.segment) : dot.finish());
      if (totals != 0) write(index + totals, begun.total);
    }
}

// The sum of the tile that the task ends, output `place` of it, which runs may have begun.
template <typename A>
class BegunSums {
 public:
  BegunSums(Work& work, const MatrixShape& shape, const MatrixTiles& tiles)
      : work_(work),
        runs_(shape, tiles),
        is_ordered_(is_ordered(tiles)),
        line_(line_of_run(shape, tiles)),
        totals_(totals_of_run(shape, tiles)),
        depth_(runs_.ended(work.task.first)),
        before_(depth_.first - shape.first_k) {}
  Depth depth() const { return depth_; }
  // What the task's own products go on from.
  Accumulator<A> before(int64_t place) {
    if (!is_ordered_ || before_ == 0) return {};
    const int64_t at = runs_.first_run(work_.task.first) * line_ + place;
    using Sum = decltype(Accumulator<A>::Dot::Begun::total);
    return {{static_cast<Sum>(read(at)), static_cast<Sum>(totals_ != 0 ? read(at + totals_) : A{})},
            before_};
  }
  // What it is with the sums of others.
  A with_begun(int64_t place, A sum) {
    const int64_t tile = work_.task.first;
    if (is_ordered_) return sum;
    for (int64_t run = runs_.first_run(tile); run < runs_.last_run(tile); run += runs_.together())
      sum = semantics::add(sum, read(run * line_ + place));
    return sum;
  }

 private:
  A read(int64_t at) {
    return value_as<A>(accumulator_type<A>(), work_.operand(work_.node.begun, at));
  }

  Work& work_;
  Runs runs_;
  bool is_ordered_;
  int64_t line_;
  int64_t totals_;  // where they are in a line; 0: it has none
  Depth depth_;
  int64_t before_;  // k of it
};

template <typename A>
void matmul(Work& work) {
  if (work.node.of_runs == OfRuns::begun) return begin_tile<A>(work);
  MatrixShape shape = matrix_shape(work.node);
  const MatrixTiles& tiles = work.plan.tilings[work.node.tiles];
  std::optional<BegunSums<A>> begun;
  if (work.node.of_runs == OfRuns::ended) {
    begun.emplace(work, shape, tiles);
    take_depth(shape, begun->depth());
  }
  const MatrixTile tile = matrix_tile(shape, tiles, work.task.first);
  std::vector<uint64_t> mains(products_of(work.node));
  const isa::Shape& out = work.node.main_type.shape;
  for (int64_t m = tile.row; m < tile.row + tile.rows; ++m) {
    std::vector<uint64_t> left;
    if (!work.node.phases.empty())
      left =
          left_row(work, matrix_element(work.type(0).shape, out, tile.batch, m, 0) / shape.whole_k);
    for (int64_t n = tile.column; n < tile.column + tile.columns; ++n) {
      for (size_t i = 0; i < mains.size(); ++i) {
        const Factors of = factors_of(work.node, i);
        const int64_t place = (m - tile.row) * tile.columns + n - tile.column;
        Accumulator<A> dot = begun ? begun->before(place) : Accumulator<A>();
        add_products(work, of, shape, tile.batch, m, n, left, dot);
        A sum = dot.finish();
        if (begun) sum = begun->with_begun(place, sum);
        mains[i] = product_element<A>(work, of, shape, tile.batch, m, n, sum);
      }
      const int64_t index = (tile.batch * shape.m + m) * shape.n + n;
      if (is_group(work.node))
        work.give_all(index, mains);
      else
        work.give(0, index, mains[0]);
    }
  }
}

// Element i of the gradient that an optimizer steps by: one that it reads, in blocks and in parts, or one that it makes.
template <typename C>
C gradient_of(Work& work, int64_t i) {
  const size_t g = work.node.own_operands - 1;
  const auto value = [&](size_t operand, int64_t at) {
    return value_as<C>(work.type(operand).dtype, work.operand(operand, at));
  };
  if (work.node.makes_gradient()) {
    const size_t left = work.node.factors;
    if (!work.node.steps_boxes()) {
      const auto add = [](C a, C b) { return semantics::add(a, b); };
      semantics::Ordered<C, decltype(add)> sum(add);
      const isa::Shape& lines = work.type(left).shape;
      for (int64_t k = 0; k < lines[0]; ++k) sum.push(value(left, k * lines[1] + i));
      return sum.finish(C(0));
    }
    const int64_t m = work.type(0).shape[0];
    const int64_t n = work.type(0).shape[1];
    Accumulator<C> dot;
    for (int64_t k = 0; k < work.type(left).shape[0]; ++k)
      dot.push(value(left, k * m + i / n), value(left + 1, k * n + i % n));
    return dot.finish();
  }
  C gradient = value(g, i);
  const int64_t all = work.type(g).elements();  // of all blocks, if they are added here
  for (int64_t at = i + work.type(0).elements(); at < all; at += work.type(0).elements())
    gradient += value(g, at);
  for (size_t part = g + 1; part < work.node.operands.size(); ++part) gradient += value(part, i);
  return gradient;
}

template <typename C>
Faulted optimize(Work& work) {
  const Opcode opcode = work.node.opcode;
  const size_t g = work.node.own_operands - 1;
  const DType type = work.type(0).dtype;
  const bool is_adam = opcode == Opcode::Adam || opcode == Opcode::Adamw;
  semantics::AdamParameters<C> adam{};
  if (is_adam) {
    const int64_t step = work.integer("step");
    if (step < 1) return Fault{TrapCode::InvalidArgument, -1};
    adam = semantics::adam_parameters<C>(work.real<C>("lr"), work.real<C>("beta1"),
                                         work.real<C>("beta2"), work.real<C>("eps"),
                                         work.real<C>("weight_decay"), step);
  }
  const C lr = work.real<C>("lr");
  const C decay = work.real<C>("weight_decay");
  const auto step = [&](int64_t i) {
    const auto value = [&](size_t operand) {
      return value_as<C>(work.type(operand).dtype, work.operand(operand, i));
    };
    const auto write = [&](size_t operand, C x) {
      work.write(work.node.operands[operand].index, i,
                 cast_bits(isa::compute_type(type), work.type(operand).dtype, pack(x)));
    };
    C w = value(0);
    const C gradient = gradient_of<C>(work, i);
    C first = g > 1 ? value(1) : C(0);
    C second = g > 2 ? value(2) : C(0);
    switch (opcode) {
      case Opcode::Sgd:
        w = semantics::sgd<C>({lr, decay}, w, gradient);
        break;
      case Opcode::SgdMomentum:
        w = semantics::sgd_momentum<C>(
            {lr, work.real<C>("momentum"), decay, flag(work.node, "nesterov")}, w, first, gradient);
        break;
      case Opcode::Adam:
        w = semantics::adam(adam, w, first, second, gradient);
        break;
      case Opcode::Adamw:
        w = semantics::adamw(adam, w, first, second, gradient);
        break;
      default:
        w = semantics::rmsprop<C>({lr, work.real<C>("decay"), work.real<C>("eps"), decay}, w, first,
                                  gradient);
        break;
    }
    write(0, w);
    if (g > 1) write(1, first);
    if (g > 2) write(2, second);
  };
  const Box part = work.node.steps_boxes()
                       ? box_at(work.type(0).shape, step_boxes(work.node), work.task.first)
                       : Box{work.task.first, work.task.count};
  for (int64_t row = 0; row < part.rows; ++row)
    for (int64_t i = 0; i < part.row_bytes; ++i) step(part.begin + row * part.stride + i);
  return std::nullopt;
}

template <typename C>
Faulted drop(Work& work, uint64_t key, uint64_t offset) {
  const bool gradient = work.node.opcode == Opcode::DropoutGrad;
  const C p = work.real<C>("p");
  if (!(p >= C(0) && p < C(1))) return Fault{TrapCode::InvalidArgument, -1};
  const C scale = semantics::dropout_scale(p);
  const DType type = work.type(0).dtype;
  for (int64_t i = work.task.first; i < work.task.first + work.task.count; ++i) {
    const uint32_t word = semantics::random_word(key, offset, static_cast<uint64_t>(i));
    const bool kept =
        gradient ? work.operand(1, i) != 0 : !semantics::bernoulli(word, static_cast<float>(p));
    const C y = kept ? value_as<C>(type, work.operand(0, i)) * scale : C(0);
    work.write(work.node.results[0], i, cast_bits(isa::compute_type(type), type, pack(y)));
    if (!gradient) work.write(work.node.results[1], i, kept ? 1 : 0);
  }
  return std::nullopt;
}

template <typename C>
uint64_t random_element(Work& work, uint64_t key, uint64_t offset, uint64_t i) {
  if (work.node.opcode == Opcode::Uniform)
    return pack(semantics::uniform<C>(semantics::random_word(key, offset, i), work.real<C>("low"),
                                      work.real<C>("high")));
  const semantics::RandomWords words = semantics::philox(key, offset + i / 4);
  const size_t even = i % 4 / 2 * 2;
  const auto pair = semantics::normal<C>(words.lane[even], words.lane[even + 1],
                                         work.real<C>("mean"), work.real<C>("std"));
  return pack(i % 2 == 0 ? pair.even : pair.odd);
}

}  // namespace

Faulted evaluate_matrix(Work& work) {
  const DType type = work.type(0).dtype;
  const bool wide = isa::byte_size(type) == 8;
  if (isa::is_real(type))
    wide ? matmul<double>(work) : matmul<float>(work);
  else
    wide ? matmul<int64_t>(work) : matmul<int32_t>(work);
  return std::nullopt;
}

Faulted evaluate_optimizer(Work& work) {
  const bool wide = work.type(0).dtype == DType::f64;
  return wide ? optimize<double>(work) : optimize<float>(work);
}

Faulted evaluate_random(Work& work) {
  const Opcode opcode = work.node.opcode;
  const bool gradient = opcode == Opcode::DropoutGrad;
  const uint64_t key = gradient ? 0 : semantics::seeded_key(work.key(), work.world.random_seed);
  const uint64_t offset = gradient ? 0 : static_cast<uint64_t>(work.integer("offset"));
  if (gradient || opcode == Opcode::Dropout)
    return work.type(0).dtype == DType::f64 ? drop<double>(work, key, offset)
                                            : drop<float>(work, key, offset);
  const DType type = work.node.main_type.dtype;
  for (int64_t i = work.task.first; i < work.task.first + work.task.count; ++i) {
    const auto element = static_cast<uint64_t>(i);
    if (opcode == Opcode::Bernoulli) {
      const bool hit =
          semantics::bernoulli(semantics::random_word(key, offset, element), work.real<float>("p"));
      work.give(0, i, hit ? 1 : 0);
    } else if (type == DType::f64) {
      work.give(0, i, random_element<double>(work, key, offset, element));
    } else {
      work.give(0, i,
                cast_bits(DType::f32, type, random_element<float>(work, key, offset, element)));
    }
  }
  return std::nullopt;
}

}  // namespace trek::plan
