// Evolving Attention whose alpha and beta each layer learns.
#pragma once

#include "nn/attention/registry.h"

namespace ea {

struct LearnedEvolvingConfig {
  const char* kind;  // for error messages
  double alpha = 0;  // initial values of the learned weights
  double beta = 0;
  std::int64_t kernel_size = 3;
  Init init = {};       // initial kernel
  MapShift shift = {};  // shift of the convolution
  Tensor taps = {};     // [1, 1, k, k]: factors of the taps, or undefined
  bool plain = false;   // L = S, without parameters
};

// I = a M + (1 - a) S, L = b ReLU(Conv(I)) + (1 - b) I with a and b the sigmoid
// of parameters. A weight that starts at 0 is not learned, and its term is left
// out. No fused kernel takes coefficients that are tensors, so the step is
// composed of operations.
class LearnedEvolving final : public Evolve {
 public:
  LearnedEvolving(const LearnedEvolvingConfig& config, const SlotSite& site);

  Evolved step(const Var& scores, const Var& previous,
               const AttentionContext& context) override;
  std::int64_t kernel_size() const override;
  bool reads_later_queries() const override;
  std::optional<std::int64_t> reach_back() const override;
  bool takes_previous() const override { return alpha_.defined(); }
  std::optional<ClosedFormView> closed_form() const override;

 private:
  // Declares the parameter whose sigmoid is the weight; undefined if not
  // learned.
  Var logit(const char* key, double value, const SlotSite& site);

  LearnedEvolvingConfig config_;
  Var alpha_, beta_, weight_, bias_;
};

// Returns weight * taps, or the weight itself if taps are undefined.
Var kernel_of(const Var& weight, const Tensor& taps);

}  // namespace ea
