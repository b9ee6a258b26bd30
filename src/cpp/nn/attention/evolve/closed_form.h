// Evolve kinds that are special cases of one formula.
#pragma once

#include "nn/attention/registry.h"
#include "ops/evolve.h"

namespace ea {

// L = p M + s S + w ReLU(Conv(a M + b S)); the softmax takes t L, the carry is
// L. The first layer of a chain has no M, so L = S; so does a later layer where
// the chain restarts. The first layer, and every layer with w = 0, has no
// convolution parameters.
class ClosedForm final : public Evolve {
 public:
  ClosedForm(const EvolveCoefficients& c, double softmax_scale,
             std::int64_t kernel_size, const Init& init, const SlotSite& site);

  Evolved step(const Var& scores, const Var& previous,
               const AttentionContext& context) override;
  std::optional<ClosedFormView> closed_form() const override {
    return ClosedFormView{c_, softmax_scale_, weight_, bias_};
  }
  std::int64_t kernel_size() const override {
    return weight_.defined() ? weight_.dim(2) : 1;
  }

 private:
  EvolveCoefficients c_;
  double softmax_scale_;
  Var weight_, bias_;
};

// The convolution's name under attention.self in checkpoints.
inline constexpr const char* kConvName = "evolving_conv";

}  // namespace ea
