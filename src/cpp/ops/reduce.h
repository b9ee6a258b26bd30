// Differentiable sums and means.
#pragma once

#include <optional>

#include "autograd/var.h"

namespace ea {

// Reduces one axis, or all axes to 0-d if none is given. Sums of integers are
// int64, means of integers float32.
Var sum(const Var& x, std::optional<int> axis = {}, bool keepdims = false);
Var mean(const Var& x, std::optional<int> axis = {}, bool keepdims = false);

}  // namespace ea
