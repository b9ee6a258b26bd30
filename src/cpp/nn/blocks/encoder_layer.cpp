// Wiring of attention and feed-forward with their residuals.
#include "nn/blocks/encoder_layer.h"

#include "ops/arithmetic.h"

namespace ea {

EncoderLayer::EncoderLayer(const EncoderLayerConfig& config,
                           const AttentionSpec& spec)
    : config_(config),
      attention_(config.attention, spec),
      attention_dense_(config.attention.value_size(),
                       config.attention.query_size, config.attention.dtype,
                       config.attention.init),
      attention_norm_(config.attention.query_size, config.layer_norm_eps,
                      config.attention.dtype),
      intermediate_(config.attention.query_size, config.intermediate_size,
                    config.attention.dtype, config.attention.init),
      output_(config.intermediate_size, config.attention.query_size,
              config.attention.dtype, config.attention.init),
      output_norm_(config.attention.query_size, config.layer_norm_eps,
                   config.attention.dtype),
      attention_dropout_(config.hidden_dropout),
      output_dropout_(config.hidden_dropout) {
  const bool first = config.norm_first;
  add_child("attention.self", attention_);
  add_child("attention.output.dense", attention_dense_);
  add_child(first ? "attention.LayerNorm" : "attention.output.LayerNorm",
            attention_norm_);
  add_child("intermediate.dense", intermediate_);
  add_child("output.dense", output_);
  add_child(first ? "intermediate.LayerNorm" : "output.LayerNorm",
            output_norm_);
  add_child("attention.output.dropout", attention_dropout_);
  add_child("output.dropout", output_dropout_);
}

Var EncoderLayer::feed_forward(const Var& h) const {
  return intermediate_(h, config_.activation, output_);
}

LayerOutput EncoderLayer::forward(const LayerState& state,
                                  const PackingPtr& packing,
                                  const AttentionWanted& wanted,
                                  const Tensor& rows) {
  const Var& x = state.hidden;
  const bool first = config_.norm_first;
  const Tokens tokens{first ? attention_norm_(x) : x, packing};
  AttentionOutput attention =
      attention_.forward(tokens, tokens, state.carry, wanted);
  const auto read = [&](const Var& all) {
    return rows.defined() ? gather_rows(all, rows) : all;
  };
  const Var projected = attention_dense_(read(attention.context));
  if (first) {
    const Var h = add(attention_dropout_(projected), read(x));
    const Var fed = feed_forward(output_norm_(h));
    return {add(output_dropout_(fed), h), std::move(attention)};
  }
  const Var h = attention_norm_(attention_dropout_, projected, read(x));
  return {output_norm_(output_dropout_, feed_forward(h), h),
          std::move(attention)};
}

}  // namespace ea
