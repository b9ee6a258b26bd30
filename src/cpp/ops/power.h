// Differentiable powers.
#pragma once

#include "autograd/var.h"

namespace ea {

// x^p for a fixed p. Negative x gives NaN unless p is a whole number.
Var pow(const Var& x, double exponent);
// x^p elementwise, with broadcasting; x and p have one floating type. For
// negative x, the result is NaN unless p is a whole number, and so is the
// gradient with respect to p.
Var pow(const Var& x, const Var& exponent);

}  // namespace ea
