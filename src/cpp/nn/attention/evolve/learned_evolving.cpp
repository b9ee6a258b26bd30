// The step composed of plain operations, and the logits of its two weights.
#include "nn/attention/evolve/learned_evolving.h"

#include <cmath>
#include <string>

#include "nn/attention/evolve/closed_form.h"
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

Var kernel_of(const Var& weight, const Tensor& taps) {
  if (!weight.defined() || !taps.defined()) return weight;
  return mul(weight, Var(to_device(taps, weight.device())));
}

LearnedEvolving::LearnedEvolving(const LearnedEvolvingConfig& config,
                                 const SlotSite& site)
    : config_(config),
      alpha_(logit("alpha", config.alpha, site)),
      beta_(logit("beta", config.beta, site)) {
  if (!beta_.defined()) return;
  const std::string name = kConvName;
  const std::int64_t side = config.kernel_size;
  weight_ =
      add_parameter(name + ".weight", {site.heads, site.heads, side, side},
                    site.dtype, config.init);
  bias_ = add_parameter(name + ".bias", {site.heads}, site.dtype, {});
}

Var LearnedEvolving::logit(const char* key, double value,
                           const SlotSite& site) {
  EA_CHECK_AS(ConfigError, value < 1.0,
              "attention." + std::string(config_.kind),
              "{} = {} cannot be learned: its sigmoid form never reaches 1; "
              "expected a start below 1, or learnable=False",
              key, value);
  if (config_.plain || value == 0.0) return {};
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
    const Var convolved = map_conv(map, kernel_of(weight_, config_.taps), bias_,
                                   context.maps, config_.shift);
    map = mixed(beta_, activation(convolved, Activation::relu), map);
  }
  return {map, map};
}

std::int64_t LearnedEvolving::kernel_size() const {
  return weight_.defined() ? config_.kernel_size : 1;
}

bool LearnedEvolving::reads_later_queries() const {
  return kernel_size() > 1 && config_.shift.down == 0;
}

std::optional<std::int64_t> LearnedEvolving::reach_back() const {
  if (reads_later_queries()) return {};
  return kernel_size() > 1 ? 2 * config_.shift.down : 0;
}

std::optional<ClosedFormView> LearnedEvolving::closed_form() const {
  if (alpha_.defined() || beta_.defined()) return {};
  return ClosedFormView{{0, 0, 0, 1, 0}, 1.0, {}, {}};  // vanilla
}

}  // namespace ea
