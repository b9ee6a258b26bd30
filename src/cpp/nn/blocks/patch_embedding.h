// Maps the patches of images to vectors.
#pragma once

#include "nn/module.h"

namespace ea {

struct PatchSizes {
  std::int64_t channels = 0;
  std::int64_t height = 0, width = 0;  // of a patch
  std::int64_t hidden = 0;

  std::int64_t pixels() const { return channels * height * width; }
};

// y = W x + b with x the pixels of a patch, channel by channel, row by row:
// a convolution whose stride is its kernel, with the weight of one
// [hidden, channels, height, width] (Dosovitskiy et al., ICLR 2021, Section
// 3.1). Pixels beyond the last whole patch are not read.
class PatchEmbedding : public Module {
 public:
  PatchEmbedding(const PatchSizes& sizes, DType dtype, double init_std);

  // [B * rows * columns, hidden] from images [B, channels, H, W], the patches
  // of an image row by row.
  Var operator()(const Var& images) const;
  Device device() const { return weight_.device(); }

 private:
  PatchSizes sizes_;
  Var weight_, bias_;
};

// [B, hidden] from rows [B * tokens, hidden]: the mean of each image's rows
// from the one numbered `first`.
Var mean_of_patches(const Var& rows, std::int64_t batch, std::int64_t first);

}  // namespace ea
