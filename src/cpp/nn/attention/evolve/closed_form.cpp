// Implements the formula of "One closed form" in docs/attention.md.
#include "nn/attention/evolve/closed_form.h"

#include "nn/attention/evolve/learned_evolving.h"

namespace ea {

ClosedForm::ClosedForm(const EvolveCoefficients& c, const EvolveKernel& kernel,
                       const SlotSite& site, bool plain, bool mean)
    : ConvolvedEvolve(kernel), c_(plain ? kVanillaStep : c), mean_(mean) {
  if (c_.w != 0.0) add_convolution(site);
}

Evolved ClosedForm::step(const Var& scores, const Var& previous,
                         const AttentionContext& context) {
  const double scale = closed_form()->softmax_scale(context.depth);
  if (!previous.defined() && takes_previous()) return {scores, scores, scale};
  const Var logits =
      evolve(previous, scores, weight(), bias(), c_, context.maps, shift());
  return {logits, logits, scale};
}

std::unique_ptr<Evolve> make_evolving(const EvolvingConfig& config,
                                      bool learnable, const SlotSite& site) {
  if (learnable) return std::make_unique<LearnedEvolving>(config, site);
  const double alpha = config.alpha, beta = config.beta;
  const EvolveCoefficients c{alpha, 1 - alpha, alpha * (1 - beta),
                             (1 - alpha) * (1 - beta), beta};
  return std::make_unique<ClosedForm>(c, config.kernel, site, config.plain);
}

}  // namespace ea
