// Attention in parallel with the convolutions of an image network: widths,
// position in a chain of maps, relative positions.
#pragma once

#include <vector>

#include "nn/blocks/conv_layer.h"

namespace ea {

// Widths of attention in parallel with convolutions, and the image size.
struct AugmentedSizes {
  explicit AugmentedSizes(const Options& options);

  std::int64_t height, width;  // of an image
  std::int64_t heads, least_key_width;
  double key_ratio, value_ratio;  // kappa and upsilon: shares of the channels
  double attention_dropout;

  // Widths of all heads together, for a convolution of `channels`: ratio *
  // channels, rounded down to a multiple of the heads; keys have at least
  // least_key_width per head. Throws ConfigError if nothing is left for values
  // or for the convolution.
  std::int64_t key_size(std::int64_t channels) const;
  std::int64_t value_size(std::int64_t channels) const;
};

// Map size and chain position of one attention layer.
struct MapSite {
  std::int64_t height, width;     // pixels
  int layer = 0, num_layers = 1;  // in its chain
  bool halved = false;            // half the size of the convolution's output
  StackPlace place = {};
};

// Sets the positions of all attention layers, given in order: a chain
// continues while maps keep their shape.
void number_chains(std::vector<MapSite>& sites);

// Settings of attention in parallel with a convolution of `in` to `out`
// channels, with the relative positions of the site's pixels.
BesideConvolution beside(const AugmentedSizes& sizes, const MapSite& site,
                         std::int64_t in, std::int64_t out,
                         const AttentionSpec& spec, DType dtype);

}  // namespace ea
