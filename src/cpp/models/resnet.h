// Residual networks of images (He et al., CVPR 2016), and those with attention
// beside their convolutions (Bello et al., ICCV 2019; Wang et al., ICML 2021).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "models/image_inputs.h"
#include "models/model.h"
#include "nn/blocks/residual_block.h"

namespace ea {

// Attention beside the 3 x 3 convolutions of all stages but the first: in the
// second at half the resolution of its convolutions.
struct AugmentedSizes {
  explicit AugmentedSizes(const Options& options);

  std::int64_t height, width;  // of an image
  std::int64_t heads, least_key_width;
  double key_ratio, value_ratio;  // kappa and upsilon of the channels
  double attention_dropout;

  // Widths of all heads beside a convolution of `channels`: the ratio's part,
  // rounded down to a multiple of the heads; of keys at least their least.
  // Throws ConfigError where nothing is left for values or the convolution.
  std::int64_t key_size(std::int64_t channels) const;
  std::int64_t value_size(std::int64_t channels) const;
};

struct ResNetSizes {
  ResNetSizes(const Options& options, bool augmented);

  std::int64_t channels, embedding;
  std::vector<std::int64_t> hidden, depths;  // of the stages
  bool bottleneck, stride_in_first_stage, stride_first;
  std::int64_t num_labels;
  Activation activation;
  ImageNormConfig norm;
  std::optional<AugmentedSizes> attention;
};

struct EncodedPixels {
  Var last;                   // [n, height, width, channels]
  std::map<int, Var> stages;  // requested: 0 the stem's, i of stage i - 1
  StackOutput maps;           // requested
};

class ResNetBody : public Module {
 public:
  ResNetBody(const ResNetSizes& sizes, const ModelConfig& config);
  EncodedPixels forward(const ImageInputs& inputs);

 private:
  void add_stages(const ModelConfig& config);

  ResNetSizes sizes_;
  DType dtype_;
  ConvLayer stem_;
  std::vector<std::vector<std::unique_ptr<ResidualBlock>>> stages_;
};

}  // namespace ea
