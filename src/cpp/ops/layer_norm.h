// Layer normalisation over the last axis (Ba et al., 2016).
#pragma once

#include "autograd/var.h"

namespace ea {

// y = (s - mean(s)) / sqrt(var(s) + eps) * weight + bias with s = x + residual
// (s = x when residual is undefined).
Var layer_norm(const Var& x, const Var& weight, const Var& bias, double eps,
               const Var& residual = {});

}  // namespace ea
