// Layer normalisation over the last axis (Ba et al., 2016).
#pragma once

#include "autograd/var.h"
#include "ops/dropout.h"

namespace ea {

// y = (s - mean(s)) / sqrt(var(s) + eps) * weight + bias with s = x + residual
// (s = x when residual is undefined).
Var layer_norm(const Var& x, const Var& weight, const Var& bias, double eps,
               const Var& residual = {});

// Layer norm with s = dropout(x, at) + residual in one kernel, bit-identical to
// the two separate ops, which run instead where fused_norm is off.
Var dropout_layer_norm(const Var& x, const Var& residual, const Var& weight,
                       const Var& bias, double eps, DropoutSite at);

}  // namespace ea
