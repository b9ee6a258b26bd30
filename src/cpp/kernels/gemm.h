// Contract: (batched) matrix product with an optional bias.
#pragma once

#include "tensor/storage.h"
#include "tensor/tensor_view.h"

namespace ea {

// y = alpha op(a) op(b) + bias, where op transposes the last two axes if asked.
// a, b, y are all [m, k] [k, n] [m, n] matrices, or all [batch, ., .]. The last
// axis of each has stride 1; the row stride (strides[rank-2]) of a and b may be
// larger than the row. y is contiguous. bias: [n], optional. One dtype for all.
// Products accumulate in float32 (float64 for float64). k = 0 gives the bias.
// kept_b: the storage of b, where b is a weight that many products share: what
// an implementation makes of b it may keep there (Storage::keep).
// row_invariant: the bits of a row of y must not depend on the number of rows
// or on the other rows (inference on the CPU: a sentence has the same result in
// any batch). Asked for only where a is one matrix as it lies and alpha is 1.
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

// The arguments as plain numbers: y [m, n] = alpha op(a) op(b) + bias, `batch`
// times; strides in elements.
struct MatMulProblem {
  std::int64_t batch, m, n, k;
  const void* a;
  const void* b;
  const void* bias;  // null: none
  void* y;
  std::int64_t a_stride, b_stride;  // between stored rows
  std::int64_t a_batch, b_batch;    // between matrices
  bool transpose_a, transpose_b;
  float alpha;
};

MatMulProblem problem_of(const MatMul::Args& args);

// Element offsets of the operands of output tile (row, col), and of depth d.
inline std::int64_t a_offset(const MatMulProblem& p, std::int64_t row,
                             std::int64_t d) {
  return p.transpose_a ? d * p.a_stride + row : row * p.a_stride + d;
}
inline std::int64_t b_offset(const MatMulProblem& p, std::int64_t d,
                             std::int64_t col) {
  return p.transpose_b ? col * p.b_stride + d : d * p.b_stride + col;
}

}  // namespace ea
