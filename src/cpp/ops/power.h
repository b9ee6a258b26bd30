// Differentiable powers.
#pragma once

#include "autograd/var.h"

namespace ea {

// x^p of a fixed p. Negative x to a p that is no whole number gives NaN.
Var pow(const Var& x, double exponent);
// x^p element by element, as exp(p log x): NaN where x is negative.
Var pow(const Var& x, const Var& exponent);

}  // namespace ea
