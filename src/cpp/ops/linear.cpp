// Affine maps and matrix products.
#include "ops/linear.h"

#include <optional>

#include "autograd/node.h"
#include "kernels/registry.h"
#include "ops/activation.h"
#include "ops/products.h"
#include "runtime/check.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

// Records f(x W^T + b), or x W^T + b without f.
Var linear_node(const Var& x, const Var& weight, const Var& bias,
                std::optional<Activation> f) {
  check_affine("linear", x.shape(), x.dtype(), weight, bias);
  const Tensor x2 = as_matrix(x.data());
  const Tensor y = affine(x2, weight, bias);
  Shape shape = x.shape();
  shape[shape.rank() - 1] = weight.dim(0);
  const Shape before = x.shape();
  Tensor out = y;
  if (f) {
    // The backward reads f's argument; overwrite it only when nothing is
    // recorded.
    if (recording({x, weight, bias})) out = empty_like(y);
    kernels::run<ActivationForward>({*f, kLeakySlope, y, out});
  }
  return record(
      "linear", reshape_view(out, shape), {x, weight, bias},
      {to_save(x, x2), weight.data(), f ? y : Tensor()},
      [before, f](const Node& node, const Tensor& grad) {
        // dx = dy W, dW = dy^T x, db = sum of rows of dy
        Tensor dy = as_matrix(grad);
        Tensor db;
        if (f) {
          const Tensor& argument = node.saved(2);
          const Tensor d = empty_like(dy);
          if (node.wants(2)) db = empty({dy.dim(1)}, dy.dtype(), dy.device());
          kernels::run<ActivationBackward>(
              {*f, kLeakySlope, dy, argument, d, db});
          dy = d;
        } else if (node.wants(2)) {
          db = sum_of_rows(dy);
        }
        const Tensor& w = node.saved(1);
        Node::Gradients grads(3);
        if (node.wants(0)) {
          grads[0] = reshape_view(product(dy, w, false, false), before);
        }
        if (node.wants(1)) {
          grads[1] = product(dy, as_matrix(node.input(0)), true, false);
        }
        grads[2] = db;
        return grads;
      });
}

}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias) {
  return linear_node(x, weight, bias, {});
}

void linear_into(const Tensor& x, const Var& weight, const Var& bias,
                 const Tensor& y) {
  check_affine("linear", x.shape(), x.dtype(), weight, bias);
  affine_into(as_matrix(x), weight, bias, y);
}

Var linear_activation(const Var& x, const Var& weight, const Var& bias,
                      Activation kind) {
  if (!enabled(FastPath::fused_activation)) {
    return activation(linear(x, weight, bias), kind);
  }
  return linear_node(x, weight, bias, kind);
}

Var matmul(const Var& a, const Var& b, bool transpose_a, bool transpose_b) {
  const int rank = a.rank();
  EA_CHECK((rank == 2 || rank == 3) && b.rank() == rank, "matmul",
           "expected two matrices or two batches of them, got {} and {}",
           a.shape(), b.shape());
  EA_CHECK(rank == 2 || a.dim(0) == b.dim(0), "matmul",
           "batches of {} and {} matrices; expected as many", a.dim(0),
           b.dim(0));
  EA_CHECK(a.dim(transpose_a ? -2 : -1) == b.dim(transpose_b ? -1 : -2),
           "matmul", "inner sizes of {} and {} differ", a.shape(), b.shape());
  EA_CHECK_AS(DTypeError, a.dtype() == b.dtype(), "matmul",
              "{} times {}; expected one type: use .to(dtype)", a.dtype(),
              b.dtype());
  const Tensor ta = contiguous(a.data());
  const Tensor tb = contiguous(b.data());
  return record(
      "matmul", product(ta, tb, transpose_a, transpose_b), {a, b}, {ta, tb},
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

}  // namespace ea
