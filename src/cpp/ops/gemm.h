// Matrix products.
#pragma once

#include "autograd/var.h"

namespace ea {

// Computes op(a) op(b) by NumPy's rules: for matrices [m, k] and [k, n], or
// batches of them whose leading axes broadcast. A vector a is one row, a vector
// b one column; y lacks the axis that a vector does not have.
Var matmul(const Var& a, const Var& b, bool transpose_a = false,
           bool transpose_b = false);

}  // namespace ea
