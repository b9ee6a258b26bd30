// Predictive Attention: L_i = alpha CNN(L_{i-1}) + (1 - alpha) S_i, where CNN
// is m convolutions, each followed by ReLU, of the previous map only.
#include <string>

#include "nn/attention/evolve/closed_form.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/map_conv.h"

namespace ea {

namespace {

// Several convolutions have no closed form, so the step is composed of
// operations.
class DeepPredictive final : public Evolve {
 public:
  DeepPredictive(double alpha, std::int64_t convolutions, const Init& init,
                 const SlotSite& site)
      : alpha_(alpha) {
    if (site.layer == 0 || alpha == 0.0) return;
    for (std::int64_t i = 0; i < convolutions; ++i) {
      const std::string name = kConvName + ("." + std::to_string(i));
      weights_.push_back(add_parameter(
          name + ".weight", {site.heads, site.heads, 3, 3}, site.dtype, init));
      biases_.push_back(
          add_parameter(name + ".bias", {site.heads}, site.dtype, {}));
    }
  }

  Evolved step(const Var& scores, const Var& previous,
               const AttentionContext& context) override {
    if (weights_.empty() || !previous.defined()) return {scores, scores};
    Var map = previous;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      map = activation(map_conv(map, weights_[i], biases_[i], context.maps),
                       Activation::relu);
    }
    const Var logits = axpby(alpha_, map, 1 - alpha_, scores);
    return {logits, logits};
  }

  std::int64_t kernel_size() const override {
    return weights_.empty() ? 1 : weights_.front().dim(2);
  }

  std::optional<ClosedFormView> closed_form() const override {
    if (!weights_.empty()) return {};
    return ClosedFormView();
  }

 private:
  double alpha_;
  std::vector<Var> weights_, biases_;
};

std::unique_ptr<Evolve> make_predictive(const Options& options,
                                        const SlotSite& site) {
  const double alpha = of_layer(options, "alpha", site);
  const std::int64_t convolutions = options.integer("num_layers");
  const Init init{Init::Kind::truncated_fan_in};
  if (convolutions > 1) {
    return std::make_unique<DeepPredictive>(alpha, convolutions, init, site);
  }
  // Without convolutions, CNN is the identity: a residual connection.
  const EvolveCoefficients c =
      convolutions == 1 ? EvolveCoefficients{1, 0, 0, 1 - alpha, alpha}
                        : EvolveCoefficients{0, 0, alpha, 1 - alpha, 0};
  return std::make_unique<ClosedForm>(c, EvolveKernel{3, init}, site,
                                      site.layer == 0);
}

const Register<Evolve> kPredictive({
    "predictive",
    "Predictive Attention Transformer, Section 3.3",
    {
        {.name = "alpha",
         .type = "float",
         .high = 1,
         .doc =
             "the weight of the prediction from the previous map, from 0 to 1",
         .per_layer = true},
        {.name = "num_layers",
         .type = "int",
         .fallback = 1,
         .high = 8,
         .doc = "the number of convolutions, from 0 (identity) to 8"},
    },
    make_predictive,
});

}  // namespace

}  // namespace ea
