// Matrix products.
#pragma once

#include "autograd/var.h"

namespace ea {

// y = x W^T + b: x [..., in], W [out, in], b [out] or undefined; y [..., out].
Var linear(const Var& x, const Var& weight, const Var& bias = {});
// op(a) op(b) of matrices [m, k] [k, n], or of equal batches of them.
Var matmul(const Var& a, const Var& b, bool transpose_a = false,
           bool transpose_b = false);

}  // namespace ea
