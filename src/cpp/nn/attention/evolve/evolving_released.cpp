// Evolving Attention as in the authors' code for time series: LeakyReLU instead
// of ReLU, also on the carried map, and vanilla attention in the first block.
#include "nn/attention/evolve/convolved.h"
#include "nn/attention/evolve/evolving_options.h"
#include "nn/layers.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/dropout.h"
#include "ops/map_conv.h"

namespace ea {

namespace {

// The two layers of the first block have neither skip nor convolution.
constexpr int kPlainLayers = 2;

// M = dropout(LeakyReLU(L')), I = alpha M + (1 - alpha) S,
// L = beta LeakyReLU(Conv(I)) + (1 - beta) I.
class EvolvingReleased final : public ConvolvedEvolve {
 public:
  EvolvingReleased(double alpha, double beta, std::int64_t side,
                   const SlotSite& site)
      : ConvolvedEvolve(
            {side, AffineInit::uniform(site.heads * side * side).weight}),
        alpha_(alpha),
        beta_(beta),
        evolves_(site.layer >= kPlainLayers && (alpha != 0.0 || beta != 0.0)) {
    if (evolves_ && beta != 0.0) add_convolution(site);
  }

  Evolved step(const Var& scores, const Var& previous,
               const AttentionContext& context) override {
    if (!evolves_ || !previous.defined()) return {scores, scores};
    Var map = scores;
    if (alpha_ != 0.0) {
      const double p = training() ? context.carry_dropout : 0.0;
      const Var carried =
          dropout(activation(previous, Activation::leaky_relu), {p, site()});
      map = axpby(alpha_, carried, 1 - alpha_, scores);
    }
    if (beta_ != 0.0) {
      const Var convolved =
          activation(map_conv(map, weight(), bias(), context.maps),
                     Activation::leaky_relu);
      map = axpby(beta_, convolved, 1 - beta_, map);
    }
    return {map, map};
  }

  // Decoders compute all rows of such maps again for each token.
  std::optional<std::int64_t> reach_back() const override {
    return Evolve::reach_back();
  }

  std::optional<ClosedFormView> closed_form() const override {
    if (evolves_) return {};
    return ClosedFormView();
  }

 private:
  double alpha_, beta_;
  bool evolves_;
};

const Register<Evolve> kEvolvingReleased({
    "evolving_released",
    "The program released with \"Convolution-enhanced Evolving Attention "
    "Networks\"",
    evolving_options(),
    [](const Options& options, const SlotSite& site) {
      return std::make_unique<EvolvingReleased>(
          of_layer(options, "alpha", site), of_layer(options, "beta", site),
          options.integer("kernel_size"), site);
    },
});

}  // namespace

}  // namespace ea
