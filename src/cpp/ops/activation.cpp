// Pointwise functions; the backward reads the saved input.
#include "ops/activation.h"

#include "autograd/node.h"
#include "kernels/registry.h"
#include "runtime/check.h"

namespace ea {

Var activation(const Var& x, Activation kind, double slope) {
  const Tensor input = contiguous(x.data());
  const Tensor y = empty_like(input);
  kernels::run<ActivationForward>({kind, slope, input, y});
  return record(
      "activation", y, {x}, {input},
      [kind, slope](const Node& node, const Tensor& dy) {
        const Tensor dx = empty_like(dy);
        kernels::run<ActivationBackward>({kind, slope, dy, node.saved(0), dx});
        return Node::Gradients{dx};
      });
}

Activation parse_activation(std::string_view name, std::string_view option) {
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") {
    return Activation::gelu_tanh;
  }
  if (name == "relu") return Activation::relu;
  if (name == "leaky_relu") return Activation::leaky_relu;
  if (name == "tanh") return Activation::tanh;
  fail<ConfigError>(option,
                    "unknown activation '{}'; expected gelu, gelu_new, "
                    "gelu_pytorch_tanh, relu, leaky_relu or tanh",
                    name);
}

}  // namespace ea
