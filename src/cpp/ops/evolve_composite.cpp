// The evolving step composed of other ops; the fused kernel must equal it.
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/evolve.h"
#include "ops/map_conv.h"
#include "runtime/check.h"

namespace ea {

Var evolve_composite(const Var& previous, const Var& scores, const Var& weight,
                     const Var& bias, const EvolveCoefficients& c,
                     const PackingPtr& packing, const MapShift& shift) {
  EA_CHECK_AS(InputError, previous.defined() || (c.a == 0.0 && c.p == 0.0),
              "evolve_composite", "a previous map is needed");
  const Var mixed = previous.defined() ? axpby(c.p, previous, c.s, scores)
                                       : scale(scores, c.s);
  if (c.w == 0.0) return mixed;
  EA_CHECK_AS(InputError, weight.defined() && bias.defined(),
              "evolve_composite",
              "weight and bias are needed where w = {} is not 0", c.w);
  const Var input = previous.defined() ? axpby(c.a, previous, c.b, scores)
                                       : scale(scores, c.b);
  const Var convolved = activation(
      map_conv(input, weight, bias, packing, shift), Activation::relu);
  return axpby(1.0, mixed, c.w, convolved);
}

}  // namespace ea
