// Affine maps of rows.
#pragma once

#include "autograd/var.h"
#include "kernels/activation.h"

namespace ea {

// y = x W^T + b: x [..., in], W [out, in], b [out] or undefined; y [..., out].
Var linear(const Var& x, const Var& weight, const Var& bias = {});
// Writes x W^T + b into y, which is contiguous; records no graph.
void linear_into(const Tensor& x, const Var& weight, const Var& bias,
                 const Tensor& y);
// f(x W^T + b) as one op, bit-identical to the two. Without a graph, f
// overwrites its argument; the backward sums db while the gradient of f is in
// cache.
Var linear_activation(const Var& x, const Var& weight, const Var& bias,
                      Activation kind);

}  // namespace ea
