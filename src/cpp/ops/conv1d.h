// Convolution along packed sequences (van den Oord et al., 2016: dilated,
// causal).
#pragma once

#include "autograd/var.h"
#include "ops/packing.h"

namespace ea {

// y[t, o] = bias[o] + sum_{c, j} weight[o, c, j] x[t + j dilation - reach, c],
// where rows outside the sequence are zero, so neighbouring sequences never
// mix. reach = (kernel - 1) dilation when causal (no row sees a later one),
// else half of it, which needs an odd kernel. x [tokens, in], weight [out, in,
// kernel], bias [out] or undefined; y [tokens, out].
Var conv1d(const Var& x, const Var& weight, const Var& bias,
           const PackingPtr& packing, std::int64_t dilation, bool causal);

}  // namespace ea
