// A number of 320 bits (MPFR) with the operators and functions that a reference formula needs, so
// that one template gives the value in double, long double and, when those cannot decide, here.
#pragma once

#include <mpfr.h>

namespace trek::accuracy {

class Real {
 public:
  static constexpr mpfr_prec_t kPrecision = 320;

  Real() { mpfr_init2(value_, kPrecision); }  // NOLINT(*-member-init): MPFR does it
  // A formula mixes both. NOLINTNEXTLINE(google-explicit-constructor)
  Real(double x) : Real() { mpfr_set_d(value_, x, MPFR_RNDN); }
  static Real from(long double x) {
    Real result;
    mpfr_set_ld(result.value_, x, MPFR_RNDN);
    return result;
  }
  Real(const Real& other) : Real() { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Real& operator=(const Real& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~Real() { mpfr_clear(value_); }

  mpfr_ptr get() { return value_; }
  mpfr_srcptr get() const { return value_; }

 private:
  mpfr_t value_;
};

inline long double to_long_double(const Real& x) { return mpfr_get_ld(x.get(), MPFR_RNDN); }

template <typename Function>
Real apply(Function function, const Real& x) {
  Real result;
  function(result.get(), x.get(), MPFR_RNDN);
  return result;
}

template <typename Function>
Real apply(Function function, const Real& x, const Real& y) {
  Real result;
  function(result.get(), x.get(), y.get(), MPFR_RNDN);
  return result;
}

inline Real operator+(const Real& x, const Real& y) { return apply(mpfr_add, x, y); }
inline Real operator-(const Real& x, const Real& y) { return apply(mpfr_sub, x, y); }
inline Real operator*(const Real& x, const Real& y) { return apply(mpfr_mul, x, y); }
inline Real operator/(const Real& x, const Real& y) { return apply(mpfr_div, x, y); }
inline Real operator-(const Real& x) {
  Real result;
  mpfr_neg(result.get(), x.get(), MPFR_RNDN);
  return result;
}
inline bool operator<(const Real& x, const Real& y) { return mpfr_less_p(x.get(), y.get()) != 0; }
inline bool operator>(const Real& x, const Real& y) { return y < x; }
inline bool operator<=(const Real& x, const Real& y) {
  return mpfr_lessequal_p(x.get(), y.get()) != 0;
}
inline bool operator>=(const Real& x, const Real& y) { return y <= x; }
inline bool operator==(const Real& x, const Real& y) { return mpfr_equal_p(x.get(), y.get()) != 0; }
inline bool isnan(const Real& x) { return mpfr_nan_p(x.get()) != 0; }
inline bool isinf(const Real& x) { return mpfr_inf_p(x.get()) != 0; }
inline bool signbit(const Real& x) { return mpfr_signbit(x.get()) != 0; }

inline Real exp(const Real& x) { return apply(mpfr_exp, x); }
inline Real expm1(const Real& x) { return apply(mpfr_expm1, x); }
inline Real log(const Real& x) { return apply(mpfr_log, x); }
inline Real log1p(const Real& x) { return apply(mpfr_log1p, x); }
inline Real sqrt(const Real& x) { return apply(mpfr_sqrt, x); }
inline Real sin(const Real& x) { return apply(mpfr_sin, x); }
inline Real cos(const Real& x) { return apply(mpfr_cos, x); }
inline Real tanh(const Real& x) { return apply(mpfr_tanh, x); }
inline Real erf(const Real& x) { return apply(mpfr_erf, x); }
inline Real erfc(const Real& x) { return apply(mpfr_erfc, x); }
inline Real fabs(const Real& x) { return apply(mpfr_abs, x); }
inline Real floor(const Real& x) { return apply(mpfr_rint_floor, x); }
inline Real ceil(const Real& x) { return apply(mpfr_rint_ceil, x); }
inline Real trunc(const Real& x) { return apply(mpfr_rint_trunc, x); }
inline Real roundeven(const Real& x) { return apply(mpfr_rint_roundeven, x); }
inline Real pow(const Real& x, const Real& y) { return apply(mpfr_pow, x, y); }
inline Real fmod(const Real& x, const Real& y) { return apply(mpfr_fmod, x, y); }
inline Real copysign(const Real& x, const Real& s) { return apply(mpfr_copysign, x, s); }

}  // namespace trek::accuracy
