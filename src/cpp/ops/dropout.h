// Dropout (Srivastava et al., 2014) from a counter-based generator.
#pragma once

#include "autograd/var.h"

namespace ea {

// x with elements zeroed with probability p, the others scaled by 1 / (1 - p);
// x itself when not training or p = 0. Draws one random stream.
Var dropout(const Var& x, double p, bool training);

}  // namespace ea
