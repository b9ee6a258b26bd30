// The evolving step in closed form: L = p M + s S + w ReLU(Conv(a M + b S)).
#pragma once

#include "autograd/var.h"
#include "kernels/evolve.h"
#include "ops/packing.h"

namespace ea {

// Runs one fused kernel. `previous` may be undefined where a = p = 0. Without a
// convolution (w = 0), weight and bias are undefined and L = p M + s S; if that
// is just S, returns the scores themselves. `shift` moves the result of the
// convolution.
Var evolve(const Var& previous, const Var& scores, const Var& weight,
           const Var& bias, const EvolveCoefficients& c,
           const PackingPtr& packing, const MapShift& shift = {});

// Returns maps with 0 where the packing has no cell; maps of dot products have
// it there already.
Var existing_cells(const Var& maps, const PackingPtr& packing);

// evolve() composed of other ops: fallback, test oracle and documentation.
Var evolve_composite(const Var& previous, const Var& scores, const Var& weight,
                     const Var& bias, const EvolveCoefficients& c,
                     const PackingPtr& packing, const MapShift& shift = {});

}  // namespace ea
