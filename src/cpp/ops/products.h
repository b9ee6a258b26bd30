// What the ops that multiply by a weight share.
#pragma once

#include "autograd/var.h"

namespace ea {

// y = op(a) op(b) + bias; kept_b and row_invariant as in kernels/gemm.h.
Tensor product(const Tensor& a, const Tensor& b, bool transpose_a,
               bool transpose_b, const Tensor& bias = {},
               const Storage* kept_b = nullptr, bool row_invariant = false);

// All axes but the last as one: [rows, width].
Tensor as_matrix(const Tensor& t);

// Throws where x W^T + b makes no sense; `op` is named in the error.
void check_affine(const char* op, const Shape& x, DType dtype,
                  const Var& weight, const Var& bias);

// Where an implementation may keep what it makes of a weight: nowhere (null)
// while training, when the weight changes at every step.
const Storage* keeper_of(const Var& weight);

// x W^T + b of a matrix x. Where W is fixed (a leaf, no gradients recorded),
// what it is laid out as may be kept, and rows do not change one another's
// bits. Axes of W after the second have size 1.
Tensor affine(const Tensor& x, const Var& weight, const Var& bias);
void affine_into(const Tensor& x, const Var& weight, const Var& bias,
                 const Tensor& y);

// db = sum of the rows of dy.
Tensor sum_of_rows(const Tensor& dy);

}  // namespace ea
