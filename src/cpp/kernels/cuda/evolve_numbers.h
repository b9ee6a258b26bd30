// Coefficients of the evolving step as float kernel parameters.
#pragma once

#include "kernels/evolve.h"

namespace ea::cuda {

struct EvolveNumbers {
  float a, b, p, s, w;

  EvolveNumbers(const EvolveCoefficients& c)
      : a(static_cast<float>(c.a)),
        b(static_cast<float>(c.b)),
        p(static_cast<float>(c.p)),
        s(static_cast<float>(c.s)),
        w(static_cast<float>(c.w)) {}
};

}  // namespace ea::cuda
