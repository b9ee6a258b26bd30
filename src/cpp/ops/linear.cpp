// Affine maps and matrix products.
#include "ops/linear.h"

#include <optional>

#include "autograd/node.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"
#include "kernels/registry.h"
#include "ops/activation.h"
#include "runtime/check.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

Tensor run_matmul(const Tensor& a, const Tensor& b, bool ta, bool tb,
                  const Tensor& bias = {}, const Storage* kept_b = nullptr) {
  Shape shape = a.shape();
  const int rank = shape.rank();
  shape[rank - 2] = a.shape()[ta ? rank - 1 : rank - 2];
  shape[rank - 1] = b.shape()[tb ? rank - 2 : rank - 1];
  const Tensor y = empty(shape, a.dtype());
  kernels::run<MatMul>({a, b, bias, y, ta, tb, 1.0, kept_b});
  return y;
}

// All axes but the last as one: [rows, width].
Tensor as_matrix(const Tensor& t) {
  const std::int64_t width = t.dim(-1);
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < t.rank(); ++axis) rows *= t.shape()[axis];
  return reshape_view(contiguous(t), {rows, width});
}

// Where an implementation may keep what it makes of a weight: nowhere while
// training, when the weight changes at every step.
const Storage* keeper_of(const Var& weight) {
  const Storage* storage = weight.data().storage().get();
  const bool fixed = !grad_enabled() && weight.is_leaf();
  if (fixed && enabled(FastPath::packed_weights)) return storage;
  storage->drop_derived();
  return nullptr;
}

// db = sum of the rows of dy.
Tensor sum_of_rows(const Tensor& dy) {
  const std::int64_t width = dy.dim(1);
  const Tensor db = empty({1, width}, dy.dtype());
  kernels::run<Sum>({reshape_view(dy, {1, dy.dim(0), width}), db});
  return reshape_view(db, {width});
}

// x W^T + b, and f of that where there is one.
Var affine(const Var& x, const Var& weight, const Var& bias,
           std::optional<Activation> f) {
  EA_CHECK(x.rank() >= 1 && weight.rank() == 2 && x.dim(-1) == weight.dim(1),
           "linear",
           "weight has shape {}, input {}: expected (out, in) and "
           "(..., in)",
           weight.shape(), x.shape());
  EA_CHECK(!bias.defined() || bias.shape() == Shape({weight.dim(0)}), "linear",
           "bias has shape {}, expected ({},)", bias.shape(), weight.dim(0));
  EA_CHECK_AS(DTypeError,
              x.dtype() == weight.dtype() &&
                  (!bias.defined() || bias.dtype() == x.dtype()),
              "linear",
              "input is {}, weight {}: expected one type (and the bias's); use "
              ".to(dtype)",
              x.dtype(), weight.dtype());
  const Tensor x2 = as_matrix(x.data());
  const Tensor y =
      run_matmul(x2, weight.data(), false, true,
                 bias.defined() ? bias.data() : Tensor(), keeper_of(weight));
  Shape shape = x.shape();
  shape[shape.rank() - 1] = weight.dim(0);
  const Shape before = x.shape();
  Tensor out = y;
  if (f) {
    // The backward reads f's argument: only without one it may be overwritten.
    if (recording({x, weight, bias})) out = empty(y.shape(), y.dtype());
    kernels::run<ActivationForward>({*f, 0.0, y, out});
  }
  return record(
      "linear", reshape_view(out, shape), {x, weight, bias},
      {x2, weight.data(), f ? y : Tensor()},
      [before, f](const Node& node, const Tensor& grad) {
        // dx = dy W, dW = dy^T x, db = sum of rows of dy
        Tensor dy = as_matrix(grad);
        Tensor db;
        if (f) {
          const Tensor& argument = node.saved(2);
          const Tensor d = empty(dy.shape(), dy.dtype());
          if (node.wants(2)) db = empty({dy.dim(1)}, dy.dtype());
          kernels::run<ActivationBackward>({*f, 0.0, dy, argument, d, db});
          dy = d;
        } else if (node.wants(2)) {
          db = sum_of_rows(dy);
        }
        const Tensor& x2 = node.saved(0);
        const Tensor& w = node.saved(1);
        Node::Gradients grads(3);
        if (node.wants(0)) {
          grads[0] = reshape_view(run_matmul(dy, w, false, false), before);
        }
        if (node.wants(1)) grads[1] = run_matmul(dy, x2, true, false);
        grads[2] = db;
        return grads;
      });
}

}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias) {
  return affine(x, weight, bias, {});
}

Var linear_activation(const Var& x, const Var& weight, const Var& bias,
                      Activation kind) {
  if (!enabled(FastPath::fused_activation)) {
    return activation(linear(x, weight, bias), kind);
  }
  return affine(x, weight, bias, kind);
}

Var matmul(const Var& a, const Var& b, bool transpose_a, bool transpose_b) {
  const int rank = a.rank();
  EA_CHECK((rank == 2 || rank == 3) && b.rank() == rank, "matmul",
           "expected two matrices or two batches of them, got {} and {}",
           a.shape(), b.shape());
  EA_CHECK(rank == 2 || a.dim(0) == b.dim(0), "matmul",
           "batches of {} and {} matrices", a.dim(0), b.dim(0));
  EA_CHECK(a.dim(transpose_a ? -2 : -1) == b.dim(transpose_b ? -1 : -2),
           "matmul", "inner sizes of {} and {} differ", a.shape(), b.shape());
  EA_CHECK_AS(DTypeError, a.dtype() == b.dtype(), "matmul", "{} times {}",
              a.dtype(), b.dtype());
  const Tensor ta = contiguous(a.data());
  const Tensor tb = contiguous(b.data());
  return record(
      "matmul", run_matmul(ta, tb, transpose_a, transpose_b), {a, b}, {ta, tb},
      [transpose_a, transpose_b](const Node& node, const Tensor& dy) {
        // y = A B: dA = dy B^T, dB = A^T dy, transposed back where the
        // stored operand is transposed.
        const Tensor& a = node.saved(0);
        const Tensor& b = node.saved(1);
        Node::Gradients grads(2);
        if (node.wants(0)) {
          grads[0] = transpose_a ? run_matmul(b, dy, transpose_b, true)
                                 : run_matmul(dy, b, false, !transpose_b);
        }
        if (node.wants(1)) {
          grads[1] = transpose_b ? run_matmul(dy, a, true, transpose_a)
                                 : run_matmul(a, dy, !transpose_a, false);
        }
        return grads;
      });
}

}  // namespace ea
