// Evolve kinds that are special cases of one formula.
#pragma once

#include "nn/attention/evolve/convolved.h"
#include "ops/evolve.h"

namespace ea {

// L = p M + s S + w ReLU(Conv(a M + b S)) is the carry; the softmax takes L, or
// with `mean` L divided by the number of maps since the chain's start. A layer
// that reads M has L = S where the chain restarts. Layers with w = 0 have no
// convolution parameters.
class ClosedForm final : public ConvolvedEvolve {
 public:
  // `plain`: L = S. The first layer of a chain, which has no M, must be plain
  // if its coefficients read M.
  ClosedForm(const EvolveCoefficients& c, const EvolveKernel& kernel,
             const SlotSite& site, bool plain, bool mean = false);

  Evolved step(const Var& scores, const Var& previous,
               const AttentionContext& context) override;
  bool takes_previous() const override { return c_.a != 0.0 || c_.p != 0.0; }
  std::optional<ClosedFormView> closed_form() const override {
    return ClosedFormView{c_, mean_, weight(), bias(), shift()};
  }

 private:
  EvolveCoefficients c_;
  bool mean_;
};

// Evolving Attention (Wang et al., ICML 2021, Eq. 4):
// I = alpha M + (1 - alpha) S, L = beta ReLU(Conv(I)) + (1 - beta) I.
struct EvolvingConfig {
  const char* kind;  // for error messages
  double alpha = 0;  // if learned, their initial values
  double beta = 0;
  EvolveKernel kernel = {};
  bool plain = false;  // L = S, without parameters
};

// Returns a ClosedForm, or with `learnable` a LearnedEvolving.
std::unique_ptr<Evolve> make_evolving(const EvolvingConfig& config,
                                      bool learnable, const SlotSite& site);

}  // namespace ea
