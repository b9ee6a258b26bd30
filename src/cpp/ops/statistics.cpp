// Statistics and log-sums; every gradient follows from those of the parts.
#include "ops/statistics.h"

#include <cmath>

#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/compare.h"
#include "ops/extent.h"
#include "ops/reduce.h"
#include "ops/selection.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

Tensor number_like(const Tensor& x, double value) {
  return full({}, x.dtype(), value, x.device());
}

// Computes f(x) in a type with more digits, and rounds the result once.
template <typename F>
Var rounded_once(const Var& x, F f) {
  const DType type = x.dtype();
  if (!is_floating(type)) {  // on the CPU, which has float64
    const Var wide = cast(to_device(x, kCpu), DType::f64);
    return to_device(cast(f(wide), DType::f32), x.device());
  }
  return cast(f(type == DType::bf16 ? cast(x, DType::f32) : x), type);
}

// sqrt(x) with derivative 0 at 0, where that of sqrt() is infinite.
Var root(const Var& x) {
  const Tensor none = number_like(x.data(), 0.0);
  const Tensor zero = compare(Comparison::equal, x.data(), none);
  const Var one(number_like(x.data(), 1.0));
  return where(zero, Var(none),
               activation(where(zero, one, x), Activation::sqrt));
}

// Largest element along the axis, which is kept; a constant, and 0 where there
// are no elements.
Var largest(const Var& x, std::optional<int> axis, const char* op) {
  const Extent e = extent_of(x.shape(), axis, op);
  if (e.n == 0) return Var(zeros(e.kept, x.dtype(), x.device()));
  return max(Var(x.data()), axis, true);
}

// Computes the variance of x, whose type has enough digits; errors name `op`.
Var spread(const Var& x, std::optional<int> axis, bool keepdims,
           double correction, const char* op) {
  const std::int64_t n = extent_of(x.shape(), axis, op).n;
  const double divisor = static_cast<double>(n) - correction;
  EA_CHECK(divisor > 0, op,
           "{} elements less a correction of {} give the divisor {}; expected "
           "more elements, or correction=0 (shape {})",
           n, correction, divisor, x.shape());
  // The gradient of the mean m is 0, for sum (x - m) = 0: m is a constant.
  // The second pass removes the rounding error of the first mean.
  Var centred = x;
  for (int pass = 0; pass < 2; ++pass) {
    centred = sub(centred, mean(Var(centred.data()), axis, true));
  }
  return scale(sum(mul(centred, centred), axis, keepdims), 1.0 / divisor);
}

}  // namespace

Var variance(const Var& x, std::optional<int> axis, bool keepdims,
             double correction) {
  return rounded_once(x, [&](const Var& wide) {
    return spread(wide, axis, keepdims, correction, "var");
  });
}

Var deviation(const Var& x, std::optional<int> axis, bool keepdims,
              double correction) {
  return rounded_once(x, [&](const Var& wide) {
    return root(spread(wide, axis, keepdims, correction, "std"));
  });
}

Var vector_norm(const Var& x, std::optional<int> axis, bool keepdims,
                double p) {
  EA_CHECK_AS(ConfigError, p == 1 || p == 2 || p == INFINITY, "norm",
              "p is {}, expected 1, 2 or inf; another norm is "
              "(x.abs() ** p).sum() ** (1 / p)",
              p);
  return rounded_once(x, [&](const Var& wide) {
    if (p == 1) return sum(abs(wide), axis, keepdims);
    if (p == 2) return root(sum(mul(wide, wide), axis, keepdims));
    return max(abs(wide), axis, keepdims);
  });
}

Var logsumexp(const Var& x, std::optional<int> axis, bool keepdims) {
  const Extent e = extent_of(x.shape(), axis, "logsumexp");
  return rounded_once(x, [&](const Var& wide) {
    // exp(x - m) <= 1; an infinite m would give inf - inf.
    const Var top = largest(wide, axis, "logsumexp");
    const Tensor finite = compare(Comparison::less, abs(top).data(),
                                  number_like(wide.data(), INFINITY));
    const Var m = where(finite, top, Var(number_like(wide.data(), 0.0)));
    const Var terms = activation(sub(wide, m), Activation::exp);
    const Var y = add(activation(sum(terms, axis, true), Activation::log), m);
    return reshape(y, keepdims ? e.kept : e.dropped);
  });
}

Var log_softmax(const Var& x, int axis) {
  EA_CHECK_AS(DTypeError, is_floating(x.dtype()), "log_softmax",
              "expected float32, bfloat16 or float64, got {}", x.dtype());
  return rounded_once(x, [&](const Var& wide) {
    const Var shifted = sub(wide, largest(wide, axis, "log_softmax"));
    const Var terms = activation(shifted, Activation::exp);
    return sub(shifted, activation(sum(terms, axis, true), Activation::log));
  });
}

}  // namespace ea
