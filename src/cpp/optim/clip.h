// Global gradient norm and clipping.
#pragma once

#include <vector>

#include "autograd/var.h"

namespace ea {

// result = sum of squares of all gradients, one float64 number on their device;
// 0 if there is no gradient.
void sum_of_squares(const std::vector<Var>& params, const Tensor& result);

// sqrt of the sum of squares of all gradients; a missing gradient counts as 0.
double global_norm(const std::vector<Var>& params);

// Scales every gradient by max_norm / (norm + 1e-6) if that is below 1, as
// PyTorch does, and returns the norm before scaling. Does not change gradients
// whose norm is not finite.
double clip_grad_norm(const std::vector<Var>& params, double max_norm);

}  // namespace ea
