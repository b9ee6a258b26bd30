// Differentiable functions of one element.
#pragma once

#include <string_view>

#include "autograd/var.h"
#include "kernels/activation.h"

namespace ea {

Var activation(const Var& x, Activation kind, double slope = 0.01);
// "gelu", "gelu_new" (tanh form), "relu", "tanh"; throws ConfigError
Activation parse_activation(std::string_view name);

}  // namespace ea
