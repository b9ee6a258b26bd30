// Matrix products.
#pragma once

#include "autograd/var.h"
#include "kernels/activation.h"

namespace ea {

// y = x W^T + b: x [..., in], W [out, in], b [out] or undefined; y [..., out].
Var linear(const Var& x, const Var& weight, const Var& bias = {});
// The same into y, contiguous, without a graph.
void linear_into(const Tensor& x, const Var& weight, const Var& bias,
                 const Tensor& y);
// f(x W^T + b) as one op, with the bits of the two: without a graph f replaces
// its argument in place; the backward sums db while f's gradient is in cache.
Var linear_activation(const Var& x, const Var& weight, const Var& bias,
                      Activation kind);
// op(a) op(b) of matrices [m, k] [k, n], or of equal batches of them.
Var matmul(const Var& a, const Var& b, bool transpose_a = false,
           bool transpose_b = false);

}  // namespace ea
