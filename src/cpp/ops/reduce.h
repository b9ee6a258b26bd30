// Differentiable sums and means.
#pragma once

#include <optional>

#include "autograd/var.h"

namespace ea {

// Over one axis, or over all when there is none (then 0-d). Integers have sums
// of int64 and means of float32.
Var sum(const Var& x, std::optional<int> axis = {}, bool keepdims = false);
Var mean(const Var& x, std::optional<int> axis = {}, bool keepdims = false);

}  // namespace ea
