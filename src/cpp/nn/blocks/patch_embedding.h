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

// y = W x + b with x the pixels of a patch, channel by channel, row by row.
// This is a convolution whose stride equals its kernel; its weight has the
// shape [hidden, channels, height, width] (Dosovitskiy et al., ICLR 2021,
// Section 3.1). Pixels beyond the last whole patch are not read.
class PatchEmbedding : public Module {
 public:
  PatchEmbedding(const PatchSizes& sizes, DType dtype, double init_std);

  // Returns [B * rows * columns, hidden] from images [B, channels, H, W], with
  // the patches of an image row by row.
  Var operator()(const Var& images) const;
  Device device() const { return weight_.device(); }

 private:
  PatchSizes sizes_;
  Var weight_, bias_;
};

// Returns [B, hidden]: for each image, the mean of its rows from index `first`
// on; rows [B * tokens, hidden].
Var mean_of_patches(const Var& rows, std::int64_t batch, std::int64_t first);

}  // namespace ea
