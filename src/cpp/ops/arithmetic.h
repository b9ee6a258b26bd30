// Differentiable arithmetic with NumPy's broadcasting.
#pragma once

#include "autograd/var.h"

namespace ea {

Var add(const Var& a, const Var& b);
Var sub(const Var& a, const Var& b);
Var mul(const Var& a, const Var& b);
Var div(const Var& a, const Var& b);
// alpha x
Var scale(const Var& x, double alpha);
// alpha x + beta z, equal shapes
Var axpby(double alpha, const Var& x, double beta, const Var& z);
// Converts x to another floating type; its gradient has the type of x.
Var cast(const Var& x, DType dtype);
Var to_device(const Var& x, Device device);

}  // namespace ea
