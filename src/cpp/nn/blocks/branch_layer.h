// A post-norm layer with attention, a convolution, or both in parallel.
#pragma once

#include <memory>

#include "nn/blocks/layer.h"
#include "nn/blocks/sublayers.h"

namespace ea {

struct BranchLayerConfig {
  // Head widths of 0 mean no attention.
  TransformerLayerConfig layer;
  std::int64_t convolution_size = 0;  // features; 0: no convolution
  std::int64_t kernel_size = 3;
  bool projected = true;  // W_O after the branches
  // Number of hidden states that the layer reads; the last one is its own
  // input. With more than one, an affine map takes their concatenation to the
  // layer's width (dense connections: Huang et al., CVPR 2017).
  std::int64_t states = 1;
};

// x = C [x_0, .., x_l] (x_0 itself if it is the only state);
// h = LN(x + dropout(W_O [attention(x), conv(x)]));
// y = LN(h + dropout(W_2 act(W_1 h))).
class BranchLayer final : public Layer {
 public:
  BranchLayer(const BranchLayerConfig& config, const AttentionSpec& spec);

  // `rows` must be undefined.
  LayerOutput forward(const LayerState& state, const PackingPtr& packing,
                      const LayerWanted& wanted, const Tensor& rows) override;
  bool attends() const override { return attention_ != nullptr; }
  bool takes_previous() const override {
    return attention_ && attention_->takes_previous();
  }
  bool reads_earlier() const override { return connection_ != nullptr; }

 private:
  std::unique_ptr<Linear> connection_;  // null for one state
  std::unique_ptr<Attention> attention_;
  std::unique_ptr<Conv1d> convolution_;
  std::unique_ptr<Linear> dense_;  // null without W_O
  Norm norm_;
  Dropout dropout_;
  FeedForwardSublayer feed_forward_;
};

}  // namespace ea
