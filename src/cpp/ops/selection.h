// Differentiable choices among elements: the host decides, rows are gathered.
#pragma once

#include <optional>

#include "autograd/var.h"

namespace ea {

// a where the condition is not 0, else b; the three shapes broadcast.
Var where(const Tensor& condition, const Var& a, const Var& b);
// min(max(x, low), high); the gradient passes where x lies within the bounds.
Var clip(const Var& x, std::optional<double> low, std::optional<double> high);
// |x|, of derivative 0 at 0.
Var abs(const Var& x);
// Over one axis, or over all when there is none (then 0-d). The gradient goes
// to the first of equal elements.
Var max(const Var& x, std::optional<int> axis = {}, bool keepdims = false);
Var min(const Var& x, std::optional<int> axis = {}, bool keepdims = false);

}  // namespace ea
