// A convolution with its batch norm, and optional attention in parallel.
#pragma once

#include <memory>
#include <optional>

#include "nn/blocks/map_chain.h"
#include "nn/image_layers.h"
#include "ops/activation.h"

namespace ea {

// Settings of the batch norms of an image network.
struct ImageNormConfig {
  double momentum = 0.1, eps = 1e-5;
};

// Attention in parallel with a convolution.
struct BesideConvolution {
  AttentionConfig attention;
  AttentionSpec spec;
  bool halved = false;  // at half the height and width of the output
};

struct ConvLayerConfig {
  Conv2dConfig convolution;  // its output channels include those of attention
  ImageNormConfig norm;
  std::optional<Activation> activation;
  std::optional<BesideConvolution> beside;
};

// y = act(norm(conv(x))), or act(norm(concat(conv(x), W_O attention(x)))). With
// attention, its heads give d_v of the output channels ("Attention Augmented
// Convolutional Networks", Bello et al., ICCV 2019, Eq. 5). Attention reads
// means of 3 x 3 pixels if the convolution has stride 2, and means of these if
// it is halved; a halved result is enlarged to the size of the convolution's.
class ConvLayer : public Module {
 public:
  explicit ConvLayer(const ConvLayerConfig& config);
  Var forward(const Var& x, MapChain& chain) {
    return join(x, chain, {}, config_.activation);
  }
  // Computes act(norm(conv(x)) + residual), for the last layer of a block,
  // whose activation the caller knows. `residual` may be overwritten if nothing
  // else holds it.
  Var join(const Var& x, MapChain& chain, Var residual,
           std::optional<Activation> act);
  bool takes_previous() const {
    return attention_ && attention_->takes_previous();
  }
  Device device() const { return convolution_.device(); }

 private:
  // Returns the channels of attention, [n, height, width, d_v].
  Var attended(const Var& x, MapChain& chain);

  ConvLayerConfig config_;
  Conv2d convolution_;
  std::unique_ptr<Attention> attention_;
  std::unique_ptr<Linear> dense_;
  BatchNorm norm_;
};

}  // namespace ea
