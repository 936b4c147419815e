// Optimizer steps over a range of elements: weights are brought into the compute type, stepped by
// isa/semantics/optimizer.h and rounded to their own type.
#include "isa/semantics/optimizer.h"

#include "emulator/kernels/loops.h"

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {

template <class T>
struct Weights {
  using C = Compute<T>;
  T* w;
  C* m;
  C* v;
  const T* g;
};

template <class T, class Step>
void each(const Weights<T>& a, int64_t begin, int64_t end, Step step) {
  using C = Compute<T>;
  TREK_VECTORISE
  for (int64_t i = begin; i < end; ++i) {
    const C w = semantics::convert<C>(a.w[i]);
    const C g = semantics::convert<C>(a.g[i]);
    a.w[i] = semantics::convert<T>(step(i, w, g));
  }
}

template <class T>
void optimize_as(const OptimizerTask& task, int64_t begin, int64_t end) {
  using C = Compute<T>;
  const Weights<T> a = {reinterpret_cast<T*>(task.w), reinterpret_cast<C*>(task.m),
                        reinterpret_cast<C*>(task.v), reinterpret_cast<const T*>(task.g)};
  C real[6];
  for (int i = 0; i < 6; ++i) real[i] = static_cast<C>(task.real[i]);
  switch (task.opcode) {
    case Opcode::Sgd: {
      const semantics::SgdParameters<C> p = {real[0], real[1]};
      return each(a, begin, end, [=](int64_t, C w, C g) { return semantics::sgd(p, w, g); });
    }
    case Opcode::SgdMomentum: {
      const semantics::MomentumParameters<C> p = {real[0], real[1], real[2], task.nesterov};
      return each(a, begin, end, [=](int64_t i, C w, C g) {
        C v = a.v[i];
        const C stepped = semantics::sgd_momentum(p, w, v, g);
        a.v[i] = v;
        return stepped;
      });
    }
    case Opcode::Rmsprop: {
      const semantics::RmspropParameters<C> p = {real[0], real[1], real[2], real[3]};
      return each(a, begin, end, [=](int64_t i, C w, C g) {
        C v = a.v[i];
        const C stepped = semantics::rmsprop(p, w, v, g);
        a.v[i] = v;
        return stepped;
      });
    }
    default: {  // the two Adams
      const auto p =
          semantics::adam_parameters(real[0], real[1], real[2], real[3], real[4], task.step);
      const bool decoupled = task.opcode == Opcode::Adamw;
      return each(a, begin, end, [=](int64_t i, C w, C g) {
        C m = a.m[i];
        C v = a.v[i];
        const C stepped =
            decoupled ? semantics::adamw(p, w, m, v, g) : semantics::adam(p, w, m, v, g);
        a.m[i] = m;
        a.v[i] = v;
        return stepped;
      });
    }
  }
}

}  // namespace

void optimize_range(const OptimizerTask& task, int64_t begin, int64_t end) {
  with_real(task.dtype,
            [&](auto tag) { optimize_as<typename decltype(tag)::Type>(task, begin, end); });
}

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
