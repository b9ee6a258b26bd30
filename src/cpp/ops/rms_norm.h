// Root mean square normalisation over the last axis (Zhang and Sennrich, 2019).
#pragma once

#include "autograd/var.h"

namespace ea {

// y = x / sqrt(mean(x^2) + eps) * weight; weight [width].
Var rms_norm(const Var& x, const Var& weight, double eps);

}  // namespace ea
