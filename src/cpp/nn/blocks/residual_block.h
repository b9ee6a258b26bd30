// Blocks of residual networks (He et al., CVPR 2016): two 3 x 3 convolutions,
// or one between two 1 x 1 convolutions, with a shortcut.
#pragma once

#include <memory>
#include <vector>

#include "nn/blocks/conv_layer.h"

namespace ea {

struct ResidualBlockConfig {
  std::int64_t in = 0, out = 0, stride = 1;
  bool bottleneck = false;
  // Whether a bottleneck strides in its first convolution, not in the 3 x 3.
  bool stride_first = false;
  Activation activation = Activation::relu;
  ImageNormConfig norm;
  // Attention in parallel with each 3 x 3 convolution; empty: no attention.
  std::vector<BesideConvolution> beside;
  DType dtype = DType::f32;

  // Width of the 3 x 3 convolutions, and how many there are.
  std::int64_t inner() const { return bottleneck ? out / 4 : out; }
  std::size_t wide_convolutions() const { return bottleneck ? 1 : 2; }
};

// y = act(F(x) + shortcut(x)); within F it is ReLU, as in Hugging Face's. The
// shortcut is x itself, or a 1 x 1 convolution with a norm where the size or
// the number of channels changes.
class ResidualBlock : public ImageBlock {
 public:
  explicit ResidualBlock(const ResidualBlockConfig& config);
  Var forward(std::vector<Var> earlier, MapChain& chain) override;
  bool takes_previous() const override;

 private:
  void add_layer(std::int64_t in, std::int64_t out, std::int64_t kernel,
                 std::int64_t stride, bool active);

  ResidualBlockConfig config_;
  std::size_t wide_ = 0;  // number of 3 x 3 convolutions so far
  std::unique_ptr<ConvLayer> shortcut_;
  std::vector<std::unique_ptr<ConvLayer>> layers_;
};

}  // namespace ea
