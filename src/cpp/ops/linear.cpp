// Affine maps.
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

}  // namespace ea
