// Statistics and log-sums of one axis or of all elements, composed of other
// ops. bfloat16 is computed in float32 and integers in float64; the result is
// rounded once, of integers to float32.
#pragma once

#include <optional>

#include "autograd/var.h"

namespace ea {

// sum (x - mean)^2 / (n - correction)
Var variance(const Var& x, std::optional<int> axis, bool keepdims,
             double correction);
// Square root of variance(), with derivative 0 at 0.
Var deviation(const Var& x, std::optional<int> axis, bool keepdims,
              double correction);
// (sum |x|^p)^(1/p) for p of 1, 2 and infinity, with derivative 0 at 0.
Var vector_norm(const Var& x, std::optional<int> axis, bool keepdims, double p);
// log sum exp(x)
Var logsumexp(const Var& x, std::optional<int> axis, bool keepdims);
// x - log sum exp(x), in a floating type.
Var log_softmax(const Var& x, int axis);

}  // namespace ea
