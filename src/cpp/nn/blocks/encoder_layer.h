// One post-norm transformer encoder layer, with BERT's parameter names.
#pragma once

#include "nn/attention/attention.h"
#include "nn/layers.h"
#include "ops/activation.h"

namespace ea {

struct EncoderLayerConfig {
  AttentionConfig attention;
  std::int64_t intermediate_size = 0;
  Activation activation = Activation::gelu;
  double hidden_dropout = 0.0;
  double layer_norm_eps = 1e-12;
};

struct EncoderLayerOutput {
  Var hidden;
  AttentionOutput attention;
};

// h = LN(x + dropout(W_o attention(x)));
// y = LN(h + dropout(W_2 act(W_1 h))).
class EncoderLayer : public Module {
 public:
  EncoderLayer(const EncoderLayerConfig& config,
               std::unique_ptr<Evolve> evolve);

  // With `rows` (int64 indices of tokens) only these go on behind attention,
  // and `hidden` holds them alone.
  EncoderLayerOutput forward(const Var& x, const Var& previous,
                             const PackingPtr& packing,
                             const AttentionWanted& wanted,
                             const Tensor& rows = {});
  bool takes_previous() const { return attention_.takes_previous(); }

 private:
  EncoderLayerConfig config_;
  Attention attention_;
  Linear attention_dense_;
  LayerNorm attention_norm_;
  Linear intermediate_;
  Linear output_;
  LayerNorm output_norm_;
};

}  // namespace ea
