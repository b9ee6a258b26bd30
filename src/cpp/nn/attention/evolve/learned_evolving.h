// Evolving Attention whose alpha and beta each layer learns.
#pragma once

#include "nn/attention/evolve/closed_form.h"

namespace ea {

// I = a M + (1 - a) S, L = b ReLU(Conv(I)) + (1 - b) I with a and b the sigmoid
// of parameters. A weight that starts at 0 is not learned, and its term is left
// out. No fused kernel takes coefficients that are tensors, so the step is
// composed of operations.
class LearnedEvolving final : public ConvolvedEvolve {
 public:
  LearnedEvolving(const EvolvingConfig& config, const SlotSite& site);

  Evolved step(const Var& scores, const Var& previous,
               const AttentionContext& context) override;
  bool takes_previous() const override { return alpha_.defined(); }
  std::optional<ClosedFormView> closed_form() const override;

 private:
  // Declares the parameter whose sigmoid is the weight; undefined if not
  // learned.
  Var logit(const EvolvingConfig& config, const char* key, double value,
            const SlotSite& site);

  Var alpha_, beta_;
};

}  // namespace ea
