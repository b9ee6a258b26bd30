// Wiring of attention and feed-forward with their residuals.
#include "nn/blocks/encoder_layer.h"

namespace ea {

EncoderLayer::EncoderLayer(const EncoderLayerConfig& config,
                           std::unique_ptr<Evolve> evolve)
    : config_(config),
      attention_(config.attention, make_dense_scope(), /*bias=*/nullptr,
                 std::move(evolve)),
      attention_dense_(config.attention.hidden_size,
                       config.attention.hidden_size, config.attention.dtype,
                       config.attention.init),
      attention_norm_(config.attention.hidden_size, config.layer_norm_eps,
                      config.attention.dtype),
      intermediate_(config.attention.hidden_size, config.intermediate_size,
                    config.attention.dtype, config.attention.init),
      output_(config.intermediate_size, config.attention.hidden_size,
              config.attention.dtype, config.attention.init),
      output_norm_(config.attention.hidden_size, config.layer_norm_eps,
                   config.attention.dtype) {
  add_child("attention.self", attention_);
  add_child("attention.output.dense", attention_dense_);
  add_child("attention.output.LayerNorm", attention_norm_);
  add_child("intermediate.dense", intermediate_);
  add_child("output.dense", output_);
  add_child("output.LayerNorm", output_norm_);
}

EncoderLayerOutput EncoderLayer::forward(const Var& x, const Var& previous,
                                         const PackingPtr& packing,
                                         const AttentionWanted& wanted,
                                         const Tensor& rows) {
  AttentionOutput attention = attention_.forward(x, previous, packing, wanted);
  const auto read = [&](const Var& all) {
    return rows.defined() ? gather_rows(all, rows) : all;
  };
  const double p = config_.hidden_dropout;
  const Var projected = attention_dense_(read(attention.context));
  const Var h = attention_norm_(projected, read(x), p);
  const Var fed = intermediate_(h, config_.activation, output_);
  return {output_norm_(fed, h, p), std::move(attention)};
}

}  // namespace ea
