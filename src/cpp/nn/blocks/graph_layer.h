// One layer of a graph attention network (Velickovic et al., ICLR 2018).
#pragma once

#include "nn/blocks/layer.h"

namespace ea {

struct GraphLayerConfig {
  AttentionConfig attention;  // without projections: the layer has its own
  std::int64_t in_size = 0;
  double dropout = 0.0;    // rate for the layer's input
  bool averages = false;   // mean of the heads instead of their concatenation
  bool activates = true;   // ELU at the end
  bool projected = false;  // forward() takes project()'s result
};

// x = W dropout(h), used as query, key and value;
// y = ELU(heads of attention(x), concatenated or averaged, + b).
class GraphLayer final : public Layer {
 public:
  GraphLayer(const GraphLayerConfig& config, const AttentionSpec& spec);

  // Returns x [nodes, heads d] for features h [nodes, in_size]. For a sparse h,
  // `features` are the values [count] at `cells`, edges from column to node.
  Var project(const Var& features, const EdgesPtr& cells) const;
  Device device() const { return linear_.device(); }

  LayerOutput forward(const LayerState& state, const PackingPtr& packing,
                      const LayerWanted& wanted, const Tensor& rows) override;
  bool takes_previous() const override { return attention_.takes_previous(); }

 private:
  GraphLayerConfig config_;
  Dropout dropout_;
  Linear linear_;
  Attention attention_;
  Var bias_;
};

}  // namespace ea
