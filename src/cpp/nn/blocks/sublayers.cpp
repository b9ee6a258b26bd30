// Residuals and norms around attention and feed-forward.
#include "nn/blocks/sublayers.h"

#include "ops/arithmetic.h"
#include "runtime/check.h"

namespace ea {

namespace {

std::unique_ptr<LayerScale> layer_scale(const TransformerLayerConfig& config) {
  if (!config.layer_scale) return nullptr;
  EA_CHECK_AS(ConfigError, config.norm_first, "config",
              "layer_scale = {} with post-norm layers; expected pre-norm ones",
              *config.layer_scale);
  return std::make_unique<LayerScale>(
      config.attention.query_size, *config.layer_scale, config.attention.dtype);
}

Var scaled(const std::unique_ptr<LayerScale>& scale, const Var& x) {
  return scale ? (*scale)(x) : x;
}

}  // namespace

LayerNames LayerNames::bert(bool norm_first) {
  const char* norm = norm_first ? "LayerNorm" : "output.LayerNorm";
  return {{"attention", "self", "output.dense", norm, "output.dropout"},
          {"crossattention", "self", "output.dense", norm, "output.dropout"},
          {"", "intermediate.dense", "intermediate.gate", "output.dense",
           norm_first ? "intermediate.LayerNorm" : "output.LayerNorm",
           "output.dropout", "intermediate.dropout"}};
}

AttentionSublayer::AttentionSublayer(const TransformerLayerConfig& config,
                                     const AttentionSpec& spec,
                                     const AttentionNames& names)
    : norm_first_(config.norm_first),
      attention_(config.attention, spec),
      dense_(config.attention.value_size(), config.attention.query_size,
             config.attention.dtype, config.layer_inits().attention_output,
             config.has_biases()),
      scale_(layer_scale(config)),
      norm_(config.attention.query_size, config.norm, config.attention.dtype),
      dropout_(config.hidden_dropout) {
  add_child(names.attention, attention_);
  add_child(names.output, dense_);
  if (scale_) add_child(names.scale, *scale_);
  add_child(names.norm, norm_);
  add_child(names.dropout, dropout_);
}

AttendedRows AttentionSublayer::forward(const Tokens& x, const Tokens& memory,
                                        const Carry& previous,
                                        const AttentionWanted& wanted,
                                        const Tensor& rows) {
  const Tokens queries{norm_first_ ? norm_(x.rows) : x.rows, x.packing};
  return finish(
      x.rows,
      attention_.forward(queries, memory.rows.defined() ? memory : queries,
                         previous, wanted),
      rows);
}

AttendedRows AttentionSublayer::step(const Var& x, AttentionCache& cache,
                                     const Carry& previous,
                                     const AttentionWanted& wanted) {
  const Var queries = norm_first_ ? norm_(x) : x;
  return finish(x, attention_.step(queries, cache, previous, wanted), {});
}

AttendedRows AttentionSublayer::finish(const Var& x, AttentionOutput attention,
                                       const Tensor& rows) {
  const auto read = [&](const Var& all) {
    return rows.defined() ? gather_rows(all, rows) : all;
  };
  const Var projected = dense_(read(attention.context));
  const Var hidden = norm_first_
                         ? add(scaled(scale_, dropout_(projected)), read(x))
                         : norm_(dropout_, projected, read(x));
  return {hidden, std::move(attention)};
}

FeedForwardSublayer::FeedForwardSublayer(const TransformerLayerConfig& config)
    : norm_first_(config.norm_first),
      activation_(config.activation),
      intermediate_(config.attention.query_size, config.intermediate_size,
                    config.attention.dtype, config.layer_inits().wide,
                    config.has_biases()),
      output_(config.intermediate_size, config.attention.query_size,
              config.attention.dtype, config.layer_inits().narrow,
              config.has_biases()),
      scale_(layer_scale(config)),
      norm_(config.attention.query_size, config.norm, config.attention.dtype),
      dropout_(config.hidden_dropout),
      inner_dropout_(config.activation_dropout) {
  const FeedForwardNames names = config.layer_names().feed_forward;
  if (config.gated) {
    gate_ = std::make_unique<Linear>(
        config.attention.query_size, config.intermediate_size,
        config.attention.dtype, config.layer_inits().wide, config.has_biases());
    add_child(names.gate, *gate_);
  }
  add_child(names.wide, intermediate_);
  add_child(names.narrow, output_);
  if (scale_) add_child(names.scale, *scale_);
  add_child(names.norm, norm_);
  add_child(names.dropout, dropout_);
  add_child(names.inner_dropout, inner_dropout_);
}

Var FeedForwardSublayer::fed(const Var& h) const {
  if (gate_) {
    const Var opened = mul((*gate_)(h, activation_), intermediate_(h));
    return output_(inner_dropout_(opened));
  }
  if (inner_dropout_.at().p > 0.0) {
    return output_(inner_dropout_(intermediate_(h, activation_)));
  }
  return intermediate_(h, activation_, output_);
}

Var FeedForwardSublayer::forward(const Var& h) {
  const Var sum = fed(norm_first_ ? norm_(h) : h);
  return norm_first_ ? add(scaled(scale_, dropout_(sum)), h)
                     : norm_(dropout_, sum, h);
}

}  // namespace ea
