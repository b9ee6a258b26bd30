// Attention and a dilated convolution in parallel, concatenated, then a
// feed-forward.
#pragma once

#include <memory>

#include "nn/blocks/layer.h"
#include "nn/layers.h"
#include "ops/activation.h"

namespace ea {

struct AugmentedLayerConfig {
  AttentionConfig attention;  // heads x width = p d; width 0: no attention
  // Output width of the convolution, (1 - p) d; 0: no convolution.
  std::int64_t convolution_size = 0;
  std::int64_t kernel_size = 3;
  std::int64_t dilation = 1;
  bool causal = true;
  std::int64_t intermediate_size = 0;
  Activation activation = Activation::relu;
  double hidden_dropout = 0.0;
  bool layer_norm = false;         // instead of batch norm
  bool output_projection = true;   // W_O after the heads
  bool convolution_first = false;  // in the concatenation
  bool ends_block = false;         // adds the block's input, with a norm
};

// Batch norm over all valid time steps, or layer norm per time step.
class StepNorm : public Module {
 public:
  StepNorm(std::int64_t width, bool layer_norm, DType dtype);
  Var operator()(const Var& x) const;

 private:
  std::unique_ptr<BatchNorm> batch_;
  std::unique_ptr<LayerNorm> layer_;
};

// R = concat(W_O attention(x), conv(x)); y = W_2 dropout(act(W_1 norm(R)));
// at the end of a block with input z: norm(y + z).
// "Convolution-enhanced Evolving Attention Networks", Eq. 6. The paper does not
// define the norms and the residual; they follow the released code.
class AugmentedLayer final : public Layer {
 public:
  AugmentedLayer(const AugmentedLayerConfig& config, const AttentionSpec& spec);

  // The last layer of a block reads `state.block_input`; `rows` must be
  // undefined.
  LayerOutput forward(const LayerState& state, const PackingPtr& packing,
                      const LayerWanted& wanted, const Tensor& rows) override;
  bool attends() const override { return attention_ != nullptr; }
  bool takes_previous() const override {
    return attention_ && attention_->takes_previous();
  }
  bool ends_block() const override { return config_.ends_block; }

 private:
  Var feed_forward(const Var& x) const;

  AugmentedLayerConfig config_;
  std::unique_ptr<Attention> attention_;
  std::unique_ptr<Linear> attention_dense_;
  std::unique_ptr<WeightNormConv1d> convolution_;
  StepNorm norm_;
  Linear intermediate_, output_;
  Dropout dropout_;
  std::unique_ptr<StepNorm> block_norm_;
};

}  // namespace ea
