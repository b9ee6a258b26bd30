// exp, expm1, tanh, sigmoid, log and the normal distribution of vectors, with
// stated error bounds.
//
// Polynomials and rational functions are minimax fits of our own (Lawson
// iteration on Chebyshev nodes, relative error); the bounds in ulp were
// measured against double over the range of float32, in both instruction sets.
#pragma once

#include "kernels/cpu/simd/vec-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// e^x = 2^n (1 + s), where x = n ln 2 + r, |r| <= ln 2 / 2 and s = e^r - 1.
struct Exponential {
  Vf n, s;
};
EA_INLINE Exponential exponential(Vf x) {
  // Clamped so that n fits. NaN passes, because min and max then return their
  // second argument.
  const Vf y = max(set(-150.0f), min(set(128.0f), x));
  const Vf n = round(y * set(1.442695041f));
  Vf r = fnma(n, set(0.693145751953125f), y);  // exact: 11 trailing zero bits
  r = fnma(n, set(1.428606765330187e-06f), r);
  Vf p = set(0.0013814320591537849f);
  p = fma(p, r, set(0.008368851317594654f));
  p = fma(p, r, set(0.04166840110146133f));
  p = fma(p, r, set(0.16666519521967627f));
  p = fma(p, r, set(0.4999999337295866f));
  return {n, fma(p, r * r, r)};
}

// Returns e^x within 1 ulp, subnormal results included; 0 or inf out of range;
// NaN stays NaN.
EA_INLINE Vf exp(Vf x) {
  const Exponential e = exponential(x);
  return scale_by_power(e.s + set(1.0f), e.n);
}

// Returns e^x - 1 for x <= 0, within 1 ulp.
EA_INLINE Vf expm1(Vf x) {
  const Exponential e = exponential(x);
  const Vf power = scale_by_power(set(1.0f), e.n);
  return fma(e.s, power, power - set(1.0f));
}

// Phi(x), the normal distribution, and its density e^(-x^2/2) / sqrt(2 pi).
// With a = |x|, Phi(-a) = e^(-a^2/2) r(a) where r, a scaled complementary error
// function, is smooth: the relative error is 3 ulp near 0 and grows with a^2/2
// ulp in the tail, where an erf would have lost all digits.
struct Normal {
  Vf distribution, density;
};
EA_INLINE Normal normal(Vf x) {
  const Vf e = exp(x * x * set(-0.5f));
  const Vf a = min(set(20.0f), abs(x));  // e is 0 beyond; avoids inf / inf
  Vf p = set(0.0041162782248893946f);
  p = fma(p, a, set(0.04063313905699565f));
  p = fma(p, a, set(0.18323506123229938f));
  p = fma(p, a, set(0.43829513046980967f));
  p = fma(p, a, set(0.5000000029444699f));
  Vf q = set(0.01031785966401521f);
  q = fma(q, a, set(0.10185862144605388f));
  q = fma(q, a, set(0.46947037340136527f));
  q = fma(q, a, set(1.2025032791087416f));
  q = fma(q, a, set(1.6744752415637842f));
  q = fma(q, a, set(1.0f));
  const Vf tail = e * (p / q);
  return {x < set(0.0f) ? tail : set(1.0f) - tail, e * set(0.39894228f)};
}

// Hyperbolic tangent, within 6 ulp: x P(x^2) / Q(x^2) up to where it rounds
// to 1.
EA_INLINE Vf tanh(Vf x) {
  const Vf y = max(set(-9.02f), min(set(9.02f), x));
  const Vf u = y * y;
  Vf p = set(1.317616529601375e-08f);
  p = fma(p, u, set(2.048019892917196e-05f));
  p = fma(p, u, set(0.0034877516615437454f));
  p = fma(p, u, set(0.1337442578866835f));
  p = fma(p, u, set(0.9999999773844869f));
  Vf q = set(7.703486693958323e-07f);
  q = fma(q, u, set(0.0003272822389035636f));
  q = fma(q, u, set(0.025847164278934576f));
  q = fma(q, u, set(0.467077396391746f));
  q = fma(q, u, set(1.0f));
  return y * p / q;
}

// 1 / (1 + e^-x), within 3 ulp; computed from e^-|x|, which cannot overflow.
EA_INLINE Vf sigmoid(Vf x) {
  const Vf e = exp(-abs(x));
  return (x < set(0.0f) ? e : set(1.0f)) / (set(1.0f) + e);
}

// Natural logarithm, within 1 ulp; -inf at 0, NaN below. x = 2^n (1 + f) with
// sqrt(1/2) <= 1 + f < sqrt(2), log x = n ln 2 + f - f^2/2 + f^3 P(f).
EA_INLINE Vf log(Vf x) {
  const Vi small = x < set(1.17549435e-38f);  // subnormal: scaled by 2^23
  // abs() drops the sign so that the subtraction cannot overflow.
  const Vf y = abs(small ? x * set(8388608.0f) : x);
  const Vi shifted = (Vi)y - 0x3f3504f3;  // bits of sqrt(1/2)
  const Vi n = shifted >> 23;
  const Vf f = (Vf)((shifted & 0x007fffff) + 0x3f3504f3) - set(1.0f);
  const Vf e = to_float(n - (small & set_int(23)));
  Vf p = set(0.06754367767839008f);
  p = fma(p, f, set(-0.11688864298779125f));
  p = fma(p, f, set(0.11891948368166096f));
  p = fma(p, f, set(-0.12403819944886493f));
  p = fma(p, f, set(0.14218847140278792f));
  p = fma(p, f, set(-0.16668062450024457f));
  p = fma(p, f, set(0.2000215282504773f));
  p = fma(p, f, set(-0.2500000897599981f));
  p = fma(p, f, set(0.3333331215470756f));
  const Vf u = f * f;
  Vf tail = fma(p * f, u, e * set(1.428606765330187e-06f));
  tail = fnma(set(0.5f), u, tail);
  const Vf result = fma(e, set(0.693145751953125f), f + tail);
  const Vf infinity = set(__builtin_inff());
  const Vf finite = x == infinity ? x : result;
  const Vf nan = set(__builtin_nanf(""));
  return x > set(0.0f) ? finite : (x == set(0.0f) ? -infinity : nan);
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
