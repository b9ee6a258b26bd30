// The two affine maps of a transformer's feed-forward block.
#pragma once

#include "autograd/var.h"
#include "kernels/activation.h"

namespace ea {

// y = f(x W1^T + b1) W2^T + b2: x [..., in], W1 [wide, in], W2 [out, wide],
// b1, b2 or undefined; y [..., out]. As one op, with the bits of the three it
// stands for: the backward keeps f's argument alone and makes f of it again,
// which spares the memory of the widest activation of a layer.
Var feed_forward(const Var& x, const Var& weight_1, const Var& bias_1,
                 Activation f, const Var& weight_2, const Var& bias_2);

}  // namespace ea
