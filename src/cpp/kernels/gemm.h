// Contract: (batched) matrix product with an optional bias.
#pragma once

#include "tensor/storage.h"
#include "tensor/tensor_view.h"

namespace ea {

// y = alpha op(a) op(b) + bias, where op transposes the last two axes if
// transpose_a or transpose_b is set. op(a), op(b), y are matrices [m, k], [k,
// n], [m, n], or all are [batch, ., .]. The last axis of each has stride 1; the
// row stride (strides[rank-2]) of a and b may be larger than the row. y is
// contiguous. bias: [n], optional. All have one dtype. Products accumulate in
// float32 (float64 for float64). If k = 0, y is the bias.
// kept_b: storage of b, if b is a weight that many products share; an
// implementation may cache data derived from b there (Storage::keep).
// row_invariant: the bits of a row of y must not depend on the number of rows
// or on the other rows (inference on the CPU: a sentence has the same result in
// any batch). It is set only if a is a single matrix, not transposed, and alpha
// is 1.
struct MatMul {
  static constexpr const char* name = "matmul";
  struct Args {
    TensorView a, b;
    TensorView bias;  // optional
    Output y;
    bool transpose_a, transpose_b;
    double alpha;
    const Storage* kept_b = nullptr;
    bool row_invariant = false;
  };
};

// MatMul::Args as plain numbers: y [m, n] = alpha op(a) op(b) + bias, `batch`
// times. Strides are in elements.
struct MatMulProblem {
  std::int64_t batch, m, n, k;
  const void* a;
  const void* b;
  const void* bias;  // null if none
  void* y;
  std::int64_t a_stride, b_stride;  // between stored rows
  std::int64_t a_batch, b_batch;    // between matrices
  bool transpose_a, transpose_b;
  float alpha;
};

MatMulProblem problem_of(const MatMul::Args& args);

// Element offsets of op(a)[row, d] in a and of op(b)[d, col] in b.
inline std::int64_t a_offset(const MatMulProblem& p, std::int64_t row,
                             std::int64_t d) {
  return p.transpose_a ? d * p.a_stride + row : row * p.a_stride + d;
}
inline std::int64_t b_offset(const MatMulProblem& p, std::int64_t d,
                             std::int64_t col) {
  return p.transpose_b ? col * p.b_stride + d : d * p.b_stride + col;
}

}  // namespace ea
