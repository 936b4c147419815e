// Reductions along lines, softmax, and the losses.
#include <algorithm>
#include <vector>

#include "emulator/plan/evaluate.h"
#include "isa/semantics/dot.h"
#include "isa/semantics/elements.h"
#include "isa/semantics/reduce.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Opcode;
using isa::TrapCode;

template <typename C>
uint64_t rounded(DType to, C value) {
  return with_type(to, [&](auto tag) { return pack(semantics::convert<decltype(tag)>(value)); });
}

// A line's sum, product, ... of elements that are C already.
template <typename C, typename Join>
C ordered(const std::vector<C>& line, Join join, C identity) {
  semantics::Ordered<C, Join> reduction(join);
  for (C x : line) reduction.push(x);
  return reduction.finish(identity);
}
template <typename C>
C sum_of(const std::vector<C>& line) {
  return ordered(line, [](C a, C b) { return semantics::add(a, b); }, C(0));
}

template <typename C>
C reduced(Opcode opcode, std::vector<C>& line) {
  switch (opcode) {
    case Opcode::Prod:
      return ordered(line, [](C a, C b) { return semantics::mul(a, b); }, C(1));
    case Opcode::Max:
    case Opcode::Min: {
      C best = line[0];
      for (C x : line)
        best = opcode == Opcode::Max ? semantics::max(best, x) : semantics::min(best, x);
      return best;
    }
    case Opcode::Mean:
      if constexpr (semantics::kIsFloat<C>) return sum_of(line) / static_cast<C>(line.size());
      std::abort();
    case Opcode::Norm2:
      if constexpr (semantics::kIsFloat<C>) {
        for (C& x : line) x = x * x;
        return semantics::sqrt(sum_of(line));
      }
      std::abort();
    default:
      return sum_of(line);
  }
}

}  // namespace

uint64_t reduced_bits(Opcode opcode, DType type, std::span<const uint64_t> line) {
  const DType compute = type == DType::boolean ? DType::u8 : isa::compute_type(type);
  return with_type(compute, [&](auto tag) -> uint64_t {
    using C = decltype(tag);
    if constexpr (semantics::kIsFloat<C> || semantics::kIsInteger<C>) {
      std::vector<C> elements;
      for (uint64_t bits : line) elements.push_back(value_as<C>(type, bits));
      const C result = reduced(opcode, elements);
      return type == DType::boolean ? static_cast<uint64_t>(result) : rounded(type, result);
    }
    std::abort();  // compute types are such
  });
}

namespace {

int64_t best_index(Work& work, const Lines& lines, int64_t line, bool least) {
  return with_type(work.type(0).dtype, [&](auto tag) {
    using T = decltype(tag);
    int64_t best = 0;
    semantics::OrderKeyOf<T> best_key = 0;
    for (int64_t k = 0; k < lines.n; ++k) {
      const T x = unpack<T>(work.source(lines.element(line, k)));
      const auto key = least ? semantics::least_key(x) : semantics::order_key(x);
      if (k > 0 && key <= best_key) continue;
      best = k;
      best_key = key;
    }
    return best;
  });
}

// The elements of operand i (0 through its prologue) along a line, as C.
template <typename C>
std::vector<C> line_of(Work& work, const Lines& lines, int64_t line, size_t i) {
  std::vector<C> elements(static_cast<size_t>(lines.n));
  const DType type = work.type(i).dtype;
  for (int64_t k = 0; k < lines.n; ++k) {
    const int64_t at = lines.element(line, k);
    elements[static_cast<size_t>(k)] =
        value_as<C>(type, i == 0 ? work.source(at) : work.operand(i, at));
  }
  return elements;
}

void reduce_line(Work& work, const Lines& lines, int64_t line) {
  const Opcode opcode = work.node.opcode;
  const DType type = work.type(0).dtype;
  if (opcode == Opcode::Argmax || opcode == Opcode::Argmin) {
    const int64_t best = best_index(work, lines, line, opcode == Opcode::Argmin);
    work.give(0, line,
              cast_bits(DType::i64, work.node.main_type.dtype, static_cast<uint64_t>(best)));
    return;
  }
  std::vector<uint64_t> elements;
  for (int64_t k = 0; k < lines.n; ++k) elements.push_back(work.source(lines.element(line, k)));
  work.give(0, line, reduced_bits(opcode, type, elements));
}

void cumsum_line(Work& work, const Lines& lines, int64_t line) {
  const DType type = work.type(0).dtype;
  with_type(isa::compute_type(type), [&](auto tag) {
    using C = decltype(tag);
    if constexpr (semantics::kIsFloat<C> || semantics::kIsInteger<C>) {
      const std::vector<C> x = line_of<C>(work, lines, line, 0);
      C offset{};
      C running{};
      for (size_t k = 0; k < x.size(); ++k) {
        if (k % 32 == 0) {
          if (k == 32) offset = running;
          if (k > 32) offset = semantics::add(offset, running);
          running = x[k];
        } else {
          running = semantics::add(running, x[k]);
        }
        const C sum = k < 32 ? running : semantics::add(offset, running);
        work.give(0, lines.element(line, static_cast<int64_t>(k)), rounded(type, sum));
      }
    }
  });
}

// The terms that softmax and the losses share: m, e[k] = exp(x[k] - m) and their sum.
template <typename C>
struct Softened {
  C most{};
  std::vector<C> e;
  C sum{};
};
template <typename C>
Softened<C> soften(const std::vector<C>& x) {
  Softened<C> result;
  if (x.empty()) return result;
  result.most = x[0];
  for (C value : x) result.most = semantics::max(result.most, value);
  for (C value : x) result.e.push_back(semantics::exp(value - result.most));
  result.sum = sum_of(result.e);
  return result;
}

template <typename C>
void softmax_line(Work& work, const Lines& lines, int64_t line) {
  const DType type = work.type(0).dtype;
  const std::vector<C> x = line_of<C>(work, lines, line, 0);
  const auto give = [&](size_t k, C value) {
    work.give(0, lines.element(line, static_cast<int64_t>(k)), rounded(type, value));
  };
  if (work.node.opcode == Opcode::Softmax || work.node.opcode == Opcode::LogSoftmax) {
    const Softened<C> soft = soften(x);
    const bool is_log = work.node.opcode == Opcode::LogSoftmax;
    for (size_t k = 0; k < x.size(); ++k)
      give(k, is_log ? (x[k] - soft.most) - semantics::log(soft.sum) : soft.e[k] / soft.sum);
    return;
  }
  const std::vector<C> y = line_of<C>(work, lines, line, 1);
  if (work.node.opcode == Opcode::SoftmaxGrad) {
    std::vector<C> products;
    for (size_t k = 0; k < x.size(); ++k) products.push_back(x[k] * y[k]);
    const C d = sum_of(products);
    for (size_t k = 0; k < x.size(); ++k) give(k, y[k] * (x[k] - d));
  } else {
    const C s = sum_of(x);
    for (size_t k = 0; k < x.size(); ++k) {
      const C part = semantics::exp(y[k]) * s;
      give(k, x[k] - part);
    }
  }
}

enum class Reduction : uint8_t { mean, sum, none };

// The logits of a row that a loss makes.
std::vector<float> make_logits(Work& work, int64_t row) {
  const size_t left = work.node.factors;
  const auto element = [&](size_t operand, int64_t at) {
    return value_as<float>(DType::f32, work.operand(operand, at));
  };
  const isa::Shape& weights = work.type(left + 1).shape;
  std::vector<float> logits;
  for (int64_t n = 0; n < weights[1]; ++n) {
    semantics::Dot<float> dot;
    for (int64_t k = 0; k < weights[0]; ++k)
      dot.push(element(left, row * weights[0] + k), element(left + 1, k * weights[1] + n));
    const bool has_bias = work.node.operands.size() > left + 2;
    const float sum = dot.finish();
    logits.push_back(has_bias ? semantics::add(sum, element(left + 2, n)) : sum);
  }
  return logits;
}

// Those that operand `z` has, or that a loss makes.
template <typename C>
std::vector<C> logits_of(Work& work, size_t z, int64_t row) {
  if constexpr (sizeof(C) == sizeof(float))
    if (work.node.makes_logits()) return make_logits(work, row);
  const isa::Type& type = work.type(z);
  const int64_t classes = type.shape[type.shape.rank() - 1];
  std::vector<C> logits;
  for (int64_t k = 0; k < classes; ++k)
    logits.push_back(value_as<C>(type.dtype, work.operand(z, row * classes + k)));
  return logits;
}

// Gives what the layer before wants of a row whose gradient is known.
void give_back(Work& work, int64_t row, const std::vector<float>& gradient) {
  const size_t left = work.node.factors;
  const isa::Shape& weights = work.type(left + 1).shape;
  for (int64_t k = 0; k < weights[0]; ++k) {
    semantics::Dot<float> dot;
    for (int64_t n = 0; n < weights[1]; ++n)
      dot.push(gradient[static_cast<size_t>(n)],
               value_as<float>(DType::f32, work.operand(left + 1, k * weights[1] + n)));
    const int64_t at = row * weights[0] + k;
    float value = dot.finish();
    if (work.node.back == Back::relu_grad)
      value = semantics::relu_grad(value, value_as<float>(DType::f32, work.operand(left, at)));
    work.write(work.node.results[2], at, pack(value));
  }
}

// cross_entropy, its gradient, or both.
template <typename C>
Faulted cross_entropy(Work& work) {
  const bool only_gradient = work.node.opcode == Opcode::CrossEntropyGrad;
  const bool only_loss = work.node.opcode == Opcode::CrossEntropy;
  const size_t z = only_gradient ? 1 : 0;
  const Attribute& given = attribute(work.node, "reduction");
  const auto reduction =
      given.given ? static_cast<Reduction>(given.items[0].index) : Reduction::mean;
  const isa::Type& logits = work.type(z);
  const int64_t classes = logits.shape[logits.shape.rank() - 1];
  const int64_t rows = work.type(z + 1).elements();
  const auto target = [&](int64_t row) {
    return value_as<int64_t>(work.type(z + 1).dtype, work.operand(z + 1, row));
  };
  const bool whole = work.node.tiling == Tiling::whole;
  const int64_t first = whole ? 0 : work.task.first;
  const int64_t end = whole ? rows : first + work.task.count;
  for (int64_t row = first; row < end; ++row)
    if (target(row) < 0 || target(row) >= classes) return Fault{TrapCode::IndexOutOfRange, row};

  const bool by_row = !only_gradient && work.result_type(0).elements() == rows;
  std::vector<C> losses;
  for (int64_t row = first; row < end; ++row) {
    const std::vector<C> x = logits_of<C>(work, z, row);
    const Softened<C> soft = soften(x);
    const int64_t t = target(row);
    losses.push_back(semantics::log(soft.sum) - (x[static_cast<size_t>(t)] - soft.most));
    if (by_row) work.write(work.node.results[0], row, pack(losses.back()));
    std::vector<C> gradient;
    for (int64_t k = 0; k < classes && !only_loss; ++k) {
      C g = soft.e[static_cast<size_t>(k)] / soft.sum;
      if (k == t) g = g - C(1);
      if (reduction == Reduction::mean) g = g / static_cast<C>(rows);
      if (only_gradient) {
        const int64_t at = reduction == Reduction::none ? row : 0;
        g = value_as<C>(work.type(0).dtype, work.operand(0, at)) * g;
      }
      work.write(work.node.results[only_gradient ? 0 : 1], row * classes + k,
                 rounded(logits.dtype, g));
      gradient.push_back(g);
    }
    if constexpr (sizeof(C) == sizeof(float))
      if (work.node.back != Back::none) give_back(work, row, gradient);
  }
  if (only_gradient || by_row) return std::nullopt;
  const C total = sum_of(losses);
  work.write(work.node.results[0], 0,
             pack(reduction == Reduction::mean ? total / static_cast<C>(rows) : total));
  return std::nullopt;
}

template <typename F>
void each_line(Work& work, F&& f) {
  const Lines lines = lines_of(work.type(0).shape, axes_of(work.plan, work.node));
  const bool whole = work.node.tiling == Tiling::whole;
  const int64_t first = whole ? 0 : work.task.first;
  const int64_t count = whole ? lines.lines : work.task.count;
  for (int64_t line = first; line < first + count; ++line) f(lines, line);
}

}  // namespace

Faulted evaluate_reduce(Work& work) {
  each_line(work, [&](const Lines& lines, int64_t line) {
    if (work.node.opcode == Opcode::Cumsum)
      cumsum_line(work, lines, line);
    else
      reduce_line(work, lines, line);
  });
  return std::nullopt;
}

Faulted evaluate_loss(Work& work) {
  const isa::DType type = work.type(work.node.opcode == Opcode::CrossEntropyGrad ? 1 : 0).dtype;
  const bool is_f64 = type == DType::f64;
  switch (work.node.opcode) {
    case Opcode::CrossEntropy:
    case Opcode::CrossEntropyGrad:
    case Opcode::CrossEntropyWithGrad:
      return is_f64 ? cross_entropy<double>(work) : cross_entropy<float>(work);
    default:
      each_line(work, [&](const Lines& lines, int64_t line) {
        if (is_f64)
          softmax_line<double>(work, lines, line);
        else
          softmax_line<float>(work, lines, line);
      });
      return std::nullopt;
  }
}

}  // namespace trek::plan
