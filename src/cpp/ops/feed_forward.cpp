// Affine map, activation and affine map as one node of the graph.
#include "ops/feed_forward.h"

#include "autograd/node.h"
#include "kernels/registry.h"
#include "ops/activation.h"
#include "ops/linear.h"
#include "ops/products.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

// With a = f(z), z = x W1^T + b1 and y = a W2^T + b2:
// dW2 = dy^T a, db2 = sum dy, dz = (dy W2) f'(z),
// dx = dz W1, dW1 = dz^T x, db1 = sum dz.
Node::Gradients gradients(const Node& node, const Tensor& grad, Activation f,
                          const Shape& shape) {
  enum { kX, kWeight1, kBias1, kWeight2, kBias2 };
  const Tensor& z = node.saved(1);
  const Tensor dy = as_matrix(grad);
  Node::Gradients grads(5);
  if (node.wants(kBias2)) grads[kBias2] = sum_of_rows(dy);
  if (node.wants(kWeight2)) {
    const Tensor a = empty_like(z);
    kernels::run<ActivationForward>({f, kLeakySlope, z, a});
    grads[kWeight2] = product(dy, a, true, false);
  }
  if (!node.wants(kX) && !node.wants(kWeight1) && !node.wants(kBias1)) {
    return grads;
  }
  Tensor db;
  if (node.wants(kBias1)) db = empty({z.dim(1)}, z.dtype(), z.device());
  Tensor dz;
  {
    const Tensor da = product(dy, node.saved(3), false, false);
    dz = empty_like(z);
    kernels::run<ActivationBackward>({f, kLeakySlope, da, z, dz, db});
  }
  grads[kBias1] = db;
  if (node.wants(kWeight1)) {
    grads[kWeight1] = product(dz, as_matrix(node.input(kX)), true, false);
  }
  if (node.wants(kX)) {
    grads[kX] = reshape_view(product(dz, node.saved(2), false, false), shape);
  }
  return grads;
}

}  // namespace

Var feed_forward(const Var& x, const Var& weight_1, const Var& bias_1,
                 Activation f, const Var& weight_2, const Var& bias_2) {
  check_affine("feed_forward", x.shape(), x.dtype(), weight_1, bias_1);
  Shape wide = x.shape(), shape = x.shape();
  wide[wide.rank() - 1] = weight_1.dim(0);
  check_affine("feed_forward", wide, x.dtype(), weight_2, bias_2);
  if (!enabled(FastPath::fused_activation)) {
    return linear(activation(linear(x, weight_1, bias_1), f), weight_2, bias_2);
  }
  shape[shape.rank() - 1] = weight_2.dim(0);
  const Tensor x2 = as_matrix(x.data());
  const Tensor z = affine(x2, weight_1, bias_1);
  // The backward reads f's argument; overwrite it only when nothing is
  // recorded.
  const bool recorded = recording({x, weight_1, bias_1, weight_2, bias_2});
  const Tensor a = recorded ? empty_like(z) : z;
  kernels::run<ActivationForward>({f, kLeakySlope, z, a});
  const Tensor y = affine(a, weight_2, bias_2);
  return record("feed_forward", reshape_view(y, shape),
                {x, weight_1, bias_1, weight_2, bias_2},
                {to_save(x, x2), z, weight_1.data(), weight_2.data()},
                [f, before = x.shape()](const Node& node, const Tensor& dy) {
                  return gradients(node, dy, f, before);
                });
}

}  // namespace ea
