// Products of elements, and running sums.
#pragma once

#include <optional>

#include "autograd/var.h"
#include "ops/extent.h"

namespace ea {

// Sums of integers along n of x, [outer, n, inner]: int64 [outer, inner], which
// wraps as NumPy's does. Synchronises with the device.
Tensor whole_sums(const Tensor& x, const Extent& e);
// Product along the axis, or of all elements; 1 of none. Integers give int64,
// which wraps as NumPy's does.
Var prod(const Var& x, std::optional<int> axis, bool keepdims);
// y_k = sum of x_i over i <= k, computed on the host in float64, or in int64.
// Without an axis x is flattened. Synchronises with the device.
Var cumsum(const Var& x, std::optional<int> axis);

}  // namespace ea
