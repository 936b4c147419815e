// One element's step of each optimizer. Weights come in the compute type C and are rounded to their
// own type by the caller; what is said here happens in C.
#pragma once

#include "isa/semantics/power.h"
#include "isa/semantics/target.h"

namespace trek::semantics {

// The gradient with L2 decay; weight_decay 0 leaves it alone, as fma with 0 would not (0 × inf).
template <Float C>
TREK_FN C decayed(C weight_decay, C w, C g) {
  const C sum = fma(weight_decay, w, g);
  return weight_decay != C(0) ? sum : g;
}

template <Float C>
struct SgdParameters {
  C lr;
  C weight_decay;
};
template <Float C>
TREK_FN C sgd(const SgdParameters<C>& p, C w, C g) {
  return fma(-p.lr, decayed(p.weight_decay, w, g), w);
}

template <Float C>
struct MomentumParameters {
  C lr;
  C momentum;
  C weight_decay;
  bool nesterov;
};
template <Float C>
TREK_FN C sgd_momentum(const MomentumParameters<C>& p, C w, C& v, C gradient) {
  const C g = decayed(p.weight_decay, w, gradient);
  v = fma(p.momentum, v, g);
  const C ahead = fma(p.momentum, v, g);
  return fma(-p.lr, p.nesterov ? ahead : v, w);
}

// What Adam takes, with what is the same for all elements worked out once.
template <Float C>
struct AdamParameters {
  C lr;
  C beta1;
  C beta2;
  C eps;
  C weight_decay;
  C rest1;        // 1 - beta1
  C rest2;        // 1 - beta2
  C correction1;  // adam_correction()
  C correction2;
};
// 1 - beta^step, worked out in f64.
//
// A pow is some two hundred dependent operations, which a GPU takes longer for than for many steps. For an f32 a power by
// squaring does where it tells: with u = 2^-53 it is at most 2 step u off, and pow(), with less than a unit of the last place
// (accuracy.json), 2 u; if both ends of what that leaves, and more, round to one number, so does pow().
template <Float C>
TREK_FN C adam_correction(C beta, std::int64_t step) {
  if constexpr (sizeof(C) == 4) {
    double power = 1;
    double square = static_cast<double>(beta);
    for (auto left = static_cast<std::uint64_t>(step); left != 0; left >>= 1) {
      if ((left & 1) != 0) power *= square;
      square *= square;
    }
    const double off = abs(power) * static_cast<double>(step) * 0x1p-50;
    const C least = static_cast<C>(1.0 - (power + off));
    const C most = static_cast<C>(1.0 - (power - off));
    if (step > 0 && least == most) return least;
  }
  return static_cast<C>(1.0 - pow(static_cast<double>(beta), static_cast<double>(step)));
}
template <Float C>
TREK_FN AdamParameters<C> adam_parameters(C lr, C beta1, C beta2, C eps, C weight_decay,
                                          C correction1, C correction2) {
  return {lr,           beta1,        beta2,       eps,        weight_decay,
          C(1) - beta1, C(1) - beta2, correction1, correction2};
}
template <Float C>
TREK_FN AdamParameters<C> adam_parameters(C lr, C beta1, C beta2, C eps, C weight_decay,
                                          std::int64_t step) {
  return adam_parameters(lr, beta1, beta2, eps, weight_decay, adam_correction(beta1, step),
                         adam_correction(beta2, step));
}

// The step that both Adams take from w (decayed, for AdamW) along g (decayed, for Adam): what becomes of the moments, and
// the direction that they give.
template <Float C>
TREK_FN void adam_moments(const AdamParameters<C>& p, C& m, C& v, C g) {
  m = fma(p.beta1, m, p.rest1 * g);
  v = fma(p.beta2, v, (p.rest2 * g) * g);
}
template <Float C>
TREK_FN C adam_direction(const AdamParameters<C>& p, C m, C v) {
  return (m / p.correction1) / (sqrt(v / p.correction2) + p.eps);
}
template <Float C>
TREK_FN C adam_step(const AdamParameters<C>& p, C w, C& m, C& v, C g) {
  adam_moments(p, m, v, g);
  return fma(-p.lr, adam_direction(p, m, v), w);
}
template <Float C>
TREK_FN C adam(const AdamParameters<C>& p, C w, C& m, C& v, C g) {
  return adam_step(p, w, m, v, decayed(p.weight_decay, w, g));
}
template <Float C>
TREK_FN C adamw_decayed(const AdamParameters<C>& p, C w) {
  return decayed(-(p.lr * p.weight_decay), w, w);
}
template <Float C>
TREK_FN C adamw(const AdamParameters<C>& p, C w, C& m, C& v, C g) {
  return adam_step(p, adamw_decayed(p, w), m, v, g);
}

template <Float C>
struct RmspropParameters {
  C lr;
  C decay;
  C eps;
  C weight_decay;
};
template <Float C>
TREK_FN C rmsprop(const RmspropParameters<C>& p, C w, C& v, C gradient) {
  const C g = decayed(p.weight_decay, w, gradient);
  v = fma(p.decay, v, ((C(1) - p.decay) * g) * g);
  return fma(-p.lr, g / (sqrt(v) + p.eps), w);
}

}  // namespace trek::semantics
