// Products of matrices, and of vectors and batches as products of matrices.
#include "ops/gemm.h"

#include <cstdint>
#include <span>

#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "ops/arithmetic.h"
#include "ops/products.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Multiplies two matrices, or as many of a as of b.
Var paired(const Var& a, const Var& b, bool transpose_a, bool transpose_b) {
  const Tensor ta = contiguous(a.data());
  const Tensor tb = contiguous(b.data());
  const bool row_invariant = !grad_enabled() && ta.rank() == 2 && !transpose_a;
  return record(
      "matmul",
      product(ta, tb, transpose_a, transpose_b, {}, nullptr, row_invariant),
      {a, b}, {ta, tb},
      [transpose_a, transpose_b](const Node& node, const Tensor& dy) {
        // y = A B: dA = dy B^T, dB = A^T dy, transposed back where the
        // stored operand is transposed.
        const Tensor& a = node.saved(0);
        const Tensor& b = node.saved(1);
        Node::Gradients grads(2);
        if (node.wants(0)) {
          grads[0] = transpose_a ? product(b, dy, transpose_b, true)
                                 : product(dy, b, false, !transpose_b);
        }
        if (node.wants(1)) {
          grads[1] = transpose_b ? product(dy, a, true, transpose_a)
                                 : product(a, dy, !transpose_a, false);
        }
        return grads;
      });
}

// Returns the first `count` sizes.
Shape leading(const Shape& shape, int count) {
  return Shape(std::span(shape.begin(), static_cast<std::size_t>(count)));
}

Shape with_matrix(Shape shape, std::int64_t rows, std::int64_t cols) {
  shape.append(rows);
  shape.append(cols);
  return shape;
}

// Returns [number of all, rows, cols] for matrices [..., rows, cols], each
// repeated as their leading axes broadcast to `batch`.
Var in_batch(const Var& x, const Shape& batch) {
  const std::int64_t rows = x.dim(-2), cols = x.dim(-1);
  Var all = x;
  if (leading(x.shape(), x.rank() - 2) != batch) {
    const Shape ones = with_matrix(batch, 1, 1);
    all = mul(x, Var(full(ones, x.dtype(), 1.0, x.device())));
  }
  return reshape(all, {batch.numel(), rows, cols});
}

Var with_vectors(const Var& a, const Var& b, bool transpose_a,
                 bool transpose_b) {
  const bool row = a.rank() == 1, column = b.rank() == 1;
  EA_CHECK(
      !(row && transpose_a) && !(column && transpose_b), "matmul",
      "a vector has no transpose: shapes {} and {}, expected matrices where "
      "transpose_a or transpose_b is set",
      a.shape(), b.shape());
  const Var y =
      matmul(row ? reshape(a, {1, a.dim(0)}) : a,
             column ? reshape(b, {b.dim(0), 1}) : b, transpose_a, transpose_b);
  Shape shape = leading(y.shape(), y.rank() - 2);
  if (!row) shape.append(y.dim(-2));
  if (!column) shape.append(y.dim(-1));
  return reshape(y, shape);
}

}  // namespace

Var matmul(const Var& a, const Var& b, bool transpose_a, bool transpose_b) {
  EA_CHECK(a.rank() > 0 && b.rank() > 0, "matmul",
           "expected vectors, matrices or batches of matrices, got {} and {}",
           a.shape(), b.shape());
  if (a.rank() == 1 || b.rank() == 1) {
    return with_vectors(a, b, transpose_a, transpose_b);
  }
  EA_CHECK(a.dim(transpose_a ? -2 : -1) == b.dim(transpose_b ? -1 : -2),
           "matmul", "inner sizes of {} and {} differ", a.shape(), b.shape());
  EA_CHECK_AS(DTypeError, a.dtype() == b.dtype(), "matmul",
              "{} times {}; expected one type: use .to(dtype)", a.dtype(),
              b.dtype());
  const Shape of_a = leading(a.shape(), a.rank() - 2);
  const Shape of_b = leading(b.shape(), b.rank() - 2);
  if (of_a == of_b && of_a.rank() <= 1) {
    return paired(a, b, transpose_a, transpose_b);
  }
  const std::int64_t rows = a.dim(transpose_a ? -1 : -2);
  const std::int64_t cols = b.dim(transpose_b ? -2 : -1);
  if (of_b.rank() == 0 && !transpose_a) {  // one product of all rows
    const Var all = reshape(a, {of_a.numel() * rows, a.dim(-1)});
    return reshape(paired(all, b, false, transpose_b),
                   with_matrix(of_a, rows, cols));
  }
  const Shape batch = broadcast_shapes(of_a, of_b, "matmul");
  return reshape(
      paired(in_batch(a, batch), in_batch(b, batch), transpose_a, transpose_b),
      with_matrix(batch, rows, cols));
}

}  // namespace ea
