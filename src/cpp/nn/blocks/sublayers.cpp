// Residuals and norms around attention and feed-forward.
#include "nn/blocks/sublayers.h"

#include "ops/arithmetic.h"

namespace ea {

AttentionSublayer::AttentionSublayer(const TransformerLayerConfig& config,
                                     const AttentionSpec& spec)
    : norm_first_(config.norm_first),
      attention_(config.attention, spec),
      dense_(config.attention.value_size(), config.attention.query_size,
             config.attention.dtype, config.attention.init),
      norm_(config.attention.query_size, config.layer_norm_eps,
            config.attention.dtype),
      dropout_(config.hidden_dropout) {
  add_child("self", attention_);
  add_child("output.dense", dense_);
  add_child(norm_first_ ? "LayerNorm" : "output.LayerNorm", norm_);
  add_child("output.dropout", dropout_);
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
  const Var hidden = norm_first_ ? add(dropout_(projected), read(x))
                                 : norm_(dropout_, projected, read(x));
  return {hidden, std::move(attention)};
}

FeedForwardSublayer::FeedForwardSublayer(const TransformerLayerConfig& config)
    : norm_first_(config.norm_first),
      activation_(config.activation),
      intermediate_(config.attention.query_size, config.intermediate_size,
                    config.attention.dtype, config.attention.init),
      output_(config.intermediate_size, config.attention.query_size,
              config.attention.dtype, config.attention.init),
      norm_(config.attention.query_size, config.layer_norm_eps,
            config.attention.dtype),
      dropout_(config.hidden_dropout) {
  add_child("intermediate.dense", intermediate_);
  add_child("output.dense", output_);
  add_child(norm_first_ ? "intermediate.LayerNorm" : "output.LayerNorm", norm_);
  add_child("output.dropout", dropout_);
}

Var FeedForwardSublayer::forward(const Var& h) {
  const Var read = norm_first_ ? norm_(h) : h;
  const Var fed = intermediate_(read, activation_, output_);
  return norm_first_ ? add(dropout_(fed), h) : norm_(dropout_, fed, h);
}

}  // namespace ea
