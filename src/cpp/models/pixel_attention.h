// Attention beside the convolutions of a network of images: its widths, its
// place in a chain of maps, its relative positions.
#pragma once

#include <vector>

#include "nn/blocks/conv_layer.h"

namespace ea {

// Widths of attention beside convolutions, and the images it is made for.
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

// One attention layer of the whole network.
struct MapSite {
  std::int64_t height, width;     // pixels
  int layer = 0, num_layers = 1;  // in its chain
  bool halved = false;            // of the convolution's output
};

// Sets the places of all attention layers, given in order: a chain goes on
// while maps keep their shape.
void number_chains(std::vector<MapSite>& sites);

// Attention beside a convolution of `in` to `out` channels, with the relative
// positions of the site's pixels.
BesideConvolution beside(const AugmentedSizes& sizes, const MapSite& site,
                         std::int64_t in, std::int64_t out,
                         const AttentionSpec& spec, DType dtype);

}  // namespace ea
