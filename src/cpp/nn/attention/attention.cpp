// S = Q K^T / sqrt(d) + bias; L = evolve(S, previous); P = softmax(t L);
// context P V.
#include "nn/attention/attention.h"

#include <cmath>

#include "ops/dropout.h"
#include "ops/fused_attention.h"
#include "ops/softmax.h"
#include "runtime/check.h"
#include "runtime/fast_paths.h"

namespace ea {

Attention::Attention(const AttentionConfig& config,
                     std::unique_ptr<Scope> scope, std::unique_ptr<Bias> bias,
                     std::unique_ptr<Evolve> evolve)
    : config_(config),
      query_(config.hidden_size, config.inner_size, config.dtype, config.init),
      key_(config.hidden_size, config.inner_size, config.dtype, config.init),
      value_(config.hidden_size, config.inner_size, config.dtype, config.init),
      scope_(std::move(scope)),
      bias_(std::move(bias)),
      evolve_(std::move(evolve)) {
  EA_CHECK_AS(
      ConfigError, config.heads > 0 && config.inner_size % config.heads == 0,
      "attention", "a width of {} is not a multiple of num_attention_heads {}",
      config.inner_size, config.heads);
  add_child("query", query_);
  add_child("key", key_);
  add_child("value", value_);
  if (bias_) add_child("", *bias_);
  add_child("", *evolve_);
}

AttentionOutput Attention::forward(const Var& x, const Var& previous,
                                   const PackingPtr& packing,
                                   const AttentionWanted& wanted) {
  const AttentionContext context{config_.layer, config_.num_layers, packing,
                                 config_.carry_dropout};
  const double head_width =
      static_cast<double>(config_.inner_size / config_.heads);
  const double scale = 1.0 / std::sqrt(head_width);
  const Var q = query_(x);
  if (enabled(FastPath::fused_attention) && scope_->dense() && !bias_) {
    if (const auto form = evolve_->closed_form()) {
      const Var k = key_(x);
      const Var v = value_(x);
      const FusedAttentionOutput out =
          fused_attention(q, k, v, previous, form->weight, form->bias, packing,
                          {form->c, scale, form->softmax_scale,
                           training() ? config_.dropout : 0.0,
                           wanted.carry || wanted.probabilities});
      Var probabilities;  // asking for them changes no other bit
      if (wanted.probabilities) {
        probabilities = map_softmax(out.carry, packing, form->softmax_scale);
      }
      return {out.context, out.carry, probabilities};
    }
  }
  Var scores = scope_->score(q, key_(x), scale, context);
  if (bias_) scores = bias_->add(scores, q, context);
  const Evolved evolved = evolve_->step(scores, previous, context);
  const Var probabilities = map_softmax(evolved.logits, packing, evolved.scale);
  const Var kept = dropout(probabilities, config_.dropout, training());
  return {scope_->mix(kept, value_(x), context), evolved.carry, probabilities};
}

}  // namespace ea
