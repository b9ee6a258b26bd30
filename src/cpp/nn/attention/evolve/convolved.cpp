// Declares the parameters of the convolution and makes its kernel of them.
#include "nn/attention/evolve/convolved.h"

#include <string>

#include "ops/arithmetic.h"

namespace ea {

void ConvolvedEvolve::add_convolution(const SlotSite& site) {
  const std::string name = kConvName;
  weight_ = add_parameter(name + ".weight",
                          {site.heads, site.heads, kernel_.side, kernel_.side},
                          site.dtype, kernel_.init);
  bias_ = add_parameter(name + ".bias", {site.heads}, site.dtype, {});
}

Var ConvolvedEvolve::weight() const {
  if (!weight_.defined() || !kernel_.taps.defined()) return weight_;
  return mul(weight_, Var(to_device(kernel_.taps, weight_.device())));
}

}  // namespace ea
