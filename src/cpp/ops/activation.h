// Differentiable functions of one element.
#pragma once

#include <string_view>

#include "autograd/var.h"
#include "kernels/activation.h"

namespace ea {

// Default slope of leaky_relu for x < 0, PyTorch's.
inline constexpr double kLeakySlope = 0.01;

Var activation(const Var& x, Activation kind, double slope = kLeakySlope);
// Parses "gelu", "gelu_new" (tanh form), "relu", "leaky_relu" or "tanh". Throws
// a ConfigError that names the option.
Activation parse_activation(std::string_view name,
                            std::string_view option = "hidden_act");

}  // namespace ea
