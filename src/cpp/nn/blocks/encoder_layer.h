// One transformer encoder layer, with BERT's parameter names.
#pragma once

#include "nn/blocks/layer.h"
#include "nn/layers.h"
#include "ops/activation.h"

namespace ea {

struct EncoderLayerConfig {
  AttentionConfig attention;
  std::int64_t intermediate_size = 0;
  Activation activation = Activation::gelu;
  double hidden_dropout = 0.0;
  double layer_norm_eps = 1e-12;
  bool norm_first = false;
};

// Post-norm: h = LN(x + dropout(W_o attention(x))),
//            y = LN(h + dropout(W_2 act(W_1 h))).
// Pre-norm (`norm_first`): h = x + dropout(W_o attention(LN(x))),
//                          y = h + dropout(W_2 act(W_1 LN(h))).
// The names of the norms are those of Hugging Face's BERT and, with
// `norm_first`, of its RoBERTa-PreLayerNorm.
class EncoderLayer final : public Layer {
 public:
  EncoderLayer(const EncoderLayerConfig& config, const AttentionSpec& spec);

  LayerOutput forward(const LayerState& state, const PackingPtr& packing,
                      const AttentionWanted& wanted,
                      const Tensor& rows) override;
  bool takes_previous() const override { return attention_.takes_previous(); }

 private:
  Var feed_forward(const Var& h) const;

  EncoderLayerConfig config_;
  Attention attention_;
  Linear attention_dense_;
  LayerNorm attention_norm_;
  Linear intermediate_;
  Linear output_;
  LayerNorm output_norm_;
  Dropout attention_dropout_, output_dropout_;
};

}  // namespace ea
