// Differentiable arithmetic with NumPy's broadcasting.
#pragma once

#include "autograd/var.h"

namespace ea {

// Whole numbers next to floating ones take their type, masks count as 0 and 1.
// Two of whole numbers are calculated on the host and have no gradient; they
// divide in float32.
Var add(const Var& a, const Var& b);
Var sub(const Var& a, const Var& b);
Var mul(const Var& a, const Var& b);
Var div(const Var& a, const Var& b);
Var negative(const Var& x);
// floor(a / b) and a - b floor(a / b), which has the sign of b, for two tensors
// of one type, also of integers. Both are computed on the host and synchronise
// with the device. floor_divide() is constant between its jumps, so it has no
// gradient.
Var floor_divide(const Var& a, const Var& b);
Var remainder(const Var& a, const Var& b);
// alpha x
Var scale(const Var& x, double alpha);
// alpha x + beta z, equal shapes
Var axpby(double alpha, const Var& x, double beta, const Var& z);
// Converts x to another floating type; its gradient has the type of x.
Var cast(const Var& x, DType dtype);
Var to_device(const Var& x, Device device);

}  // namespace ea
