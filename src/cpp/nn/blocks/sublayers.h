// The parts of encoder and decoder layers: attention and feed-forward, each
// with its residual and its norm.
#pragma once

#include <memory>
#include <optional>

#include "nn/attention/attention.h"
#include "nn/layers.h"
#include "ops/activation.h"

namespace ea {

// The names of a sublayer's parts in checkpoints.
struct AttentionNames {
  const char* place;      // name of the sublayer in its layer
  const char* attention;  // name in the sublayer, as the others below
  const char* output;
  const char* norm;
  const char* dropout;
  const char* scale = "layer_scale1";
};
struct FeedForwardNames {
  const char* place;
  const char* wide;
  const char* gate;  // only if gated
  const char* narrow;
  const char* norm;
  const char* dropout;
  const char* inner_dropout;
  const char* scale = "layer_scale2";
};
struct LayerNames {
  AttentionNames self, cross;
  FeedForwardNames feed_forward;

  // Names of Hugging Face's BERT with cross-attention; with `norm_first`, those
  // of its RoBERTa-PreLayerNorm.
  static LayerNames bert(bool norm_first);
};

// Initial values of the affine maps around attention.
struct LayerInits {
  AffineInit attention_output, wide, narrow;
};

// The sizes of a layer's parts.
struct TransformerLayerConfig {
  AttentionConfig attention;
  std::int64_t intermediate_size = 0;
  Activation activation = Activation::gelu;
  bool gated = false;  // see FeedForwardSublayer
  double hidden_dropout = 0.0;
  double activation_dropout = 0.0;  // in the middle of the feed-forward
  NormConfig norm;
  bool norm_first = false;
  // Whether the affine maps after attention have biases; default:
  // attention.biased.
  std::optional<bool> biased = {};
  // Initial value of the layer scale, a factor per feature of each sublayer's
  // output in pre-norm layers; none: no layer scale.
  std::optional<double> layer_scale = {};
  std::optional<LayerInits> inits = {};  // default: attention.init for all
  std::optional<LayerNames> names = {};  // default: BERT's

  bool has_biases() const { return biased.value_or(attention.biased); }
  LayerInits layer_inits() const {
    const AffineInit& init = attention.init;
    return inits.value_or(LayerInits{init, init, init});
  }
  LayerNames layer_names() const {
    return names.value_or(LayerNames::bert(norm_first));
  }
};

struct AttendedRows {
  Var hidden;
  AttentionOutput attention;
};

// Post-norm: LN(x + dropout(W_o attention(x))); pre-norm (`norm_first`): x +
// dropout(W_o attention(LN(x))). A layer scale multiplies the dropout's result
// by lambda. LN is either kind of norm.
class AttentionSublayer : public Module {
 public:
  AttentionSublayer(const TransformerLayerConfig& config,
                    const AttentionSpec& spec, const AttentionNames& names);

  // Computes attention over `memory`, or over x itself if `memory` has no rows.
  // With `rows` (int64 indices of tokens), only these are computed after
  // attention.
  AttendedRows forward(const Tokens& x, const Tokens& memory,
                       const Carry& previous, const AttentionWanted& wanted,
                       const Tensor& rows);
  bool takes_previous() const { return attention_.takes_previous(); }
  // Computes forward() for one more token of every sequence.
  AttendedRows step(const Var& x, AttentionCache& cache, const Carry& previous,
                    const AttentionWanted& wanted);
  const Attention& attention() const { return attention_; }

 private:
  AttendedRows finish(const Var& x, AttentionOutput attention,
                      const Tensor& rows);

  bool norm_first_;
  Attention attention_;
  Linear dense_;
  std::unique_ptr<LayerScale> scale_;  // may be null
  Norm norm_;
  Dropout dropout_;
};

// Post-norm: LN(h + dropout(W_2 act(W_1 h))); pre-norm: h + dropout(W_2 act(W_1
// LN(h))), scaled as above. With a gate (Shazeer, 2020), act(W_1 h) becomes
// act(W_g h) * W_1 h. The activation may have its own dropout.
class FeedForwardSublayer : public Module {
 public:
  explicit FeedForwardSublayer(const TransformerLayerConfig& config);
  Var forward(const Var& h);

 private:
  Var fed(const Var& h) const;

  bool norm_first_;
  Activation activation_;
  Linear intermediate_, output_;
  std::unique_ptr<Linear> gate_;       // may be null
  std::unique_ptr<LayerScale> scale_;  // may be null
  Norm norm_;
  Dropout dropout_, inner_dropout_;
};

}  // namespace ea
