// One transformer encoder layer, by default with BERT's parameter names.
#pragma once

#include "nn/blocks/stack.h"
#include "nn/blocks/sublayers.h"

namespace ea {

// Post-norm: h = LN(x + dropout(W_o attention(x))),
//            y = LN(h + dropout(W_2 act(W_1 h))).
// Pre-norm (`norm_first`): h = x + dropout(W_o attention(LN(x))),
//                          y = h + dropout(W_2 act(W_1 LN(h))).
class EncoderLayer final : public Layer {
 public:
  EncoderLayer(const TransformerLayerConfig& config, const AttentionSpec& spec);

  LayerOutput forward(const LayerState& state, const PackingPtr& packing,
                      const LayerWanted& wanted, const Tensor& rows) override;
  bool takes_previous() const override { return attention_.takes_previous(); }

 private:
  AttentionSublayer attention_;
  FeedForwardSublayer feed_forward_;
};

// Returns the maker of a stack's layers; `config` has their number set.
LayerMaker encoder_maker(const TransformerLayerConfig& config,
                         const AttentionSpecs& specs);

}  // namespace ea
