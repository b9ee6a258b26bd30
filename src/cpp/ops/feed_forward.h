// The two affine maps of a transformer's feed-forward block.
#pragma once

#include "autograd/var.h"
#include "kernels/activation.h"

namespace ea {

// y = f(x W1^T + b1) W2^T + b2: x [..., in], W1 [wide, in], W2 [out, wide], b1
// and b2 may be undefined; y [..., out]. One op, bit-identical to the three it
// replaces. The backward keeps only f's argument and recomputes f, which saves
// the memory of the widest activation of a layer.
Var feed_forward(const Var& x, const Var& weight_1, const Var& bias_1,
                 Activation f, const Var& weight_2, const Var& bias_2);

}  // namespace ea
