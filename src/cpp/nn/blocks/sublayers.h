// The parts of encoder and decoder layers: attention and feed-forward, each
// with its residual and its norm.
#pragma once

#include "nn/attention/attention.h"
#include "nn/layers.h"
#include "ops/activation.h"

namespace ea {

// The sizes of a layer's parts.
struct TransformerLayerConfig {
  AttentionConfig attention;
  std::int64_t intermediate_size = 0;
  Activation activation = Activation::gelu;
  double hidden_dropout = 0.0;
  double layer_norm_eps = 1e-12;
  bool norm_first = false;
};

struct AttendedRows {
  Var hidden;
  AttentionOutput attention;
};

// Post-norm: LN(x + dropout(W_o attention(x))); pre-norm (`norm_first`):
// x + dropout(W_o attention(LN(x))). The names of the norm are those of Hugging
// Face's BERT and, with `norm_first`, of its RoBERTa-PreLayerNorm.
class AttentionSublayer : public Module {
 public:
  AttentionSublayer(const TransformerLayerConfig& config,
                    const AttentionSpec& spec);

  // Attention over `memory`; without rows there, over x itself. With `rows`
  // (int64 indices of tokens) only these are computed after attention.
  AttendedRows forward(const Tokens& x, const Tokens& memory,
                       const Carry& previous, const AttentionWanted& wanted,
                       const Tensor& rows);
  bool takes_previous() const { return attention_.takes_previous(); }
  // One more token of every sequence.
  AttendedRows step(const Var& x, AttentionCache& cache, const Carry& previous,
                    const AttentionWanted& wanted);
  const Attention& attention() const { return attention_; }

 private:
  AttendedRows finish(const Var& x, AttentionOutput attention,
                      const Tensor& rows);

  bool norm_first_;
  Attention attention_;
  Linear dense_;
  LayerNorm norm_;
  Dropout dropout_;
};

// Post-norm: LN(h + dropout(W_2 act(W_1 h))); pre-norm:
// h + dropout(W_2 act(W_1 LN(h))).
class FeedForwardSublayer : public Module {
 public:
  explicit FeedForwardSublayer(const TransformerLayerConfig& config);
  Var forward(const Var& h);

 private:
  bool norm_first_;
  Activation activation_;
  Linear intermediate_, output_;
  LayerNorm norm_;
  Dropout dropout_;
};

}  // namespace ea
