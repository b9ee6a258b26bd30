// Layer normalisation over the last axis (Ba et al., 2016).
#pragma once

#include "autograd/var.h"

namespace ea {

// y = (s - mean(s)) / sqrt(var(s) + eps) * weight + bias with s = x + residual
// (s = x when residual is undefined).
Var layer_norm(const Var& x, const Var& weight, const Var& bias, double eps,
               const Var& residual = {});

// The same with s = dropout(x, p, training) + residual, in one kernel: the same
// bits as with the two ops one after the other, which run where fused_norm is
// off. Draws one random stream when training and p > 0.
Var dropout_layer_norm(const Var& x, const Var& residual, const Var& weight,
                       const Var& bias, double eps, double p, bool training);

}  // namespace ea
