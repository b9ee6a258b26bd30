// Differentiable selection of elements: the host decides, rows are gathered.
#pragma once

#include <optional>
#include <utility>

#include "autograd/var.h"

namespace ea {

// Smallest and largest number of an integer type, the latter rounded down to a
// double.
std::pair<double, double> range_of(DType dtype);

// Takes a where the condition is not 0, else b; the three shapes broadcast.
Var where(const Tensor& condition, const Var& a, const Var& b);
// min(max(x, low), high); the gradient passes where x is within the bounds.
Var clip(const Var& x, std::optional<double> low, std::optional<double> high);
// |x|, with derivative 0 at 0.
Var abs(const Var& x);
// Reduces one axis, or all axes to 0-d if none is given. Among equal elements
// the gradient goes to the first.
Var max(const Var& x, std::optional<int> axis = {}, bool keepdims = false);
Var min(const Var& x, std::optional<int> axis = {}, bool keepdims = false);

}  // namespace ea
