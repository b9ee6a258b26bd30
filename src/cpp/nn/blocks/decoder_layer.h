// One transformer decoder layer, by default with the parameter names of Hugging
// Face's BERT with cross attention.
#pragma once

#include "nn/blocks/stack.h"
#include "nn/blocks/sublayers.h"

namespace ea {

// An encoder layer with cross-attention over `state.memory` between
// self-attention and the feed-forward. The maps of each kind of attention form
// their own chain. Vaswani et al., NeurIPS 2017.
class DecoderLayer final : public Layer {
 public:
  // `self` must see no later token (a causal scope).
  DecoderLayer(const TransformerLayerConfig& config, const AttentionSpec& self,
               const AttentionSpec& cross);

  LayerOutput forward(const LayerState& state, const PackingPtr& packing,
                      const LayerWanted& wanted, const Tensor& rows) override;
  LayerOutput step(const LayerState& state, LayerCache& cache,
                   const LayerWanted& wanted) override;
  LayerCache over(const Tokens& memory, const CachePlan& self_plan,
                  const CachePlan& cross_plan) const;
  const Attention& self() const { return attention_.attention(); }
  const Attention& cross() const { return cross_attention_.attention(); }
  bool takes_previous() const override { return attention_.takes_previous(); }
  bool takes_previous_cross() const override {
    return cross_attention_.takes_previous();
  }

 private:
  AttentionSublayer attention_, cross_attention_;
  FeedForwardSublayer feed_forward_;
};

// Returns a function that makes a stack's layers; `config` must hold their
// number.
LayerMaker decoder_maker(const TransformerLayerConfig& config,
                         const AttentionSpecs& self,
                         const AttentionSpecs& cross);

}  // namespace ea
