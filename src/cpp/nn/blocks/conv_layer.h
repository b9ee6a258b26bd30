// A convolution with its batch norm, and attention beside it.
#pragma once

#include <memory>
#include <optional>

#include "nn/blocks/map_chain.h"
#include "nn/image_layers.h"
#include "ops/activation.h"

namespace ea {

// Batch norms of a network of images.
struct ImageNormConfig {
  double momentum = 0.1, eps = 1e-5;
};

// Attention beside a convolution.
struct BesideConvolution {
  AttentionConfig attention;
  AttentionSpec spec;
  bool halved = false;  // at half the height and width of the output
};

struct ConvLayerConfig {
  Conv2dConfig convolution;  // all channels, those of attention included
  ImageNormConfig norm;
  std::optional<Activation> activation;
  std::optional<BesideConvolution> beside;
};

// y = act(norm(conv(x))), or act(norm(concat(conv(x), W_O attention(x)))): with
// attention, d_v of the output channels are those of its heads ("Attention
// Augmented Convolutional Networks", Bello et al., ICCV 2019, Eq. 5). Attention
// sees means of 3 x 3 pixels where the convolution has stride 2, and again
// where it is halved; its result is then enlarged to the convolution's.
class ConvLayer : public Module {
 public:
  explicit ConvLayer(const ConvLayerConfig& config);
  Var forward(const Var& x, MapChain& chain) {
    return join(x, chain, {}, config_.activation);
  }
  // act(norm(conv(x)) + residual): the last layer of a block, whose activation
  // the caller knows. A residual that nothing else holds may be lost.
  Var join(const Var& x, MapChain& chain, Var residual,
           std::optional<Activation> act);
  bool takes_previous() const {
    return attention_ && attention_->takes_previous();
  }
  Device device() const { return convolution_.device(); }

 private:
  // [n, height, width, d_v]
  Var attended(const Var& x, MapChain& chain);

  ConvLayerConfig config_;
  Conv2d convolution_;
  std::unique_ptr<Attention> attention_;
  std::unique_ptr<Linear> dense_;
  BatchNorm norm_;
};

}  // namespace ea
