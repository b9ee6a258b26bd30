// Implements the formula of "One closed form" in docs/attention.md.
#include "nn/attention/evolve/closed_form.h"

#include <string>

namespace ea {

ClosedForm::ClosedForm(const EvolveCoefficients& c, double softmax_scale,
                       std::int64_t kernel_size, const Init& init,
                       const SlotSite& site)
    : c_(c), softmax_scale_(softmax_scale) {
  if (site.layer == 0) c_ = {0, 0, 0, 1, 0};
  if (c_.w == 0.0) return;
  const std::string name = kConvName;
  weight_ = add_parameter(name + ".weight",
                          {site.heads, site.heads, kernel_size, kernel_size},
                          site.dtype, init);
  bias_ = add_parameter(name + ".bias", {site.heads}, site.dtype, {});
}

Evolved ClosedForm::step(const Var& scores, const Var& previous,
                         const AttentionContext& context) {
  if (!previous.defined() && takes_previous()) {
    return {scores, scores, softmax_scale_};
  }
  const Var logits = evolve(previous, scores, weight_, bias_, c_, context.maps);
  return {logits, logits, softmax_scale_};
}

}  // namespace ea
