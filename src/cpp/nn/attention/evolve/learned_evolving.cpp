// The step composed of plain operations, and the logits of its two weights.
#include "nn/attention/evolve/learned_evolving.h"

#include <cmath>
#include <string>

#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/map_conv.h"

namespace ea {

namespace {

// sigmoid(logit) x + (1 - sigmoid(logit)) z
Var mixed(const Var& logit, const Var& x, const Var& z) {
  const Var weight = activation(logit, Activation::sigmoid);
  return add(z, mul(weight, sub(x, z)));
}

}  // namespace

LearnedEvolving::LearnedEvolving(const EvolvingConfig& config,
                                 const SlotSite& site)
    : ConvolvedEvolve(config.kernel),
      alpha_(logit(config, "alpha", config.alpha, site)),
      beta_(logit(config, "beta", config.beta, site)) {
  if (beta_.defined()) add_convolution(site);
}

Var LearnedEvolving::logit(const EvolvingConfig& config, const char* key,
                           double value, const SlotSite& site) {
  EA_CHECK_AS(ConfigError, value < 1.0, "attention." + std::string(config.kind),
              "{} = {} cannot be learned: its sigmoid form never reaches 1; "
              "expected a start below 1, or learnable=False",
              key, value);
  if (config.plain || value == 0.0) return {};
  const Tensor start =
      full({1}, DType::f64, std::log(value / (1 - value)), kCpu);
  return add_parameter("evolving_" + std::string(key) + "_logit", {1},
                       site.dtype, {Init::Kind::given, 0.0, start});
}

Evolved LearnedEvolving::step(const Var& scores, const Var& previous,
                              const AttentionContext& context) {
  if (alpha_.defined() && !previous.defined()) return {scores, scores};
  Var map = scores;
  if (alpha_.defined()) map = mixed(alpha_, previous, map);
  if (beta_.defined()) {
    const Var convolved =
        map_conv(map, weight(), bias(), context.maps, shift());
    map = mixed(beta_, activation(convolved, Activation::relu), map);
  }
  return {map, map};
}

std::optional<ClosedFormView> LearnedEvolving::closed_form() const {
  if (alpha_.defined() || beta_.defined()) return {};
  return ClosedFormView();
}

}  // namespace ea
