// Differentiable powers.
#pragma once

#include "autograd/var.h"

namespace ea {

// x^p of a fixed p. Negative x to a p that is no whole number gives NaN.
Var pow(const Var& x, double exponent);
// x^p element by element, broadcast; x and p have one floating type. Negative x
// to a p that is no whole number gives NaN, and so does its gradient by p.
Var pow(const Var& x, const Var& exponent);

}  // namespace ea
