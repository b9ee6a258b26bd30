// Residual image networks (He et al., CVPR 2016), also with attention in
// parallel with their convolutions (Bello et al., ICCV 2019; Wang et al., ICML
// 2021).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "models/pixel_attention.h"
#include "models/pixel_tasks.h"
#include "nn/blocks/residual_block.h"

namespace ea {

struct ResNetSizes {
  ResNetSizes(const Options& options, bool augmented);

  std::int64_t channels, embedding;
  std::vector<std::int64_t> hidden, depths;  // per stage
  bool bottleneck, stride_in_first_stage, stride_first;
  Activation activation;
  ImageNormConfig norm;
  std::optional<AugmentedSizes> attention;
};

class ResNetBody final : public PixelBody {
 public:
  ResNetBody(const ResNetSizes& sizes, const ModelConfig& config);
  EncodedPixels forward(const ImageInputs& inputs) override;
  std::int64_t width() const override { return sizes_.hidden.back(); }

 private:
  void add_stages(const ModelConfig& config);

  ResNetSizes sizes_;
  DType dtype_;
  ConvLayer stem_;
  ImageStages stages_;
};

}  // namespace ea
