// Helpers of the ops that multiply by a weight.
#pragma once

#include "autograd/var.h"

namespace ea {

// y = op(a) op(b) + bias; kept_b and row_invariant as in kernels/gemm.h.
Tensor product(const Tensor& a, const Tensor& b, bool transpose_a,
               bool transpose_b, const Tensor& bias = {},
               const Storage* kept_b = nullptr, bool row_invariant = false);

// Merges all axes but the last: [rows, width].
Tensor as_matrix(const Tensor& t);

// Throws unless a bias, if any, has one number for each row of the weight, and
// both have the dtype of the input; the error names `op`.
void check_parameters(const char* op, DType dtype, const Var& weight,
                      const Var& bias);
// Throws if x W^T + b is not valid; the error names `op`.
void check_affine(const char* op, const Shape& x, DType dtype,
                  const Var& weight, const Var& bias);

// Returns the storage in which an implementation may cache data derived from a
// weight, or null in training, when the weight changes every step.
const Storage* keeper_of(const Var& weight);

// Computes x W^T + b for a matrix x. If W is fixed (a leaf, and no gradients
// are recorded), its packed form may be cached, and no row affects the bits of
// another. Axes of W after the second have size 1.
Tensor affine(const Tensor& x, const Var& weight, const Var& bias);
void affine_into(const Tensor& x, const Var& weight, const Var& bias,
                 const Tensor& y);

// db = sum of the rows of dy.
Tensor sum_of_rows(const Tensor& dy);

}  // namespace ea
