// Contract: convolution over the heads of attention maps.
#pragma once

#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// Where the result Z of the centred convolution goes: cell (i, j) holds Z[i -
// down, j - right], and 0 where i < down or j < right. Not negative.
struct MapShift {
  std::int64_t down = 0, right = 0;

  constexpr bool none() const { return down == 0 && right == 0; }
};

// y[o, i, j] = bias[o] + sum_{c, u, v} weight[o, c, u, v] x[c, i + u - r, j + v
// - r] for each sequence, r = (kernel_size - 1) / 2, cells outside the
// sequence's own n_q x n_k map being zero (cross-correlation, stride 1). Heads
// are channels: weight [heads, heads, k, k], k odd, bias [heads]; x, y flat
// maps in `layout`, which says what cells exist. y is moved by `shift`. All of
// one dtype; sums in float32 (float64 for float64).
struct MapConvForward {
  static constexpr const char* name = "map_conv_forward";
  struct Args {
    TensorView x, weight, bias;
    Output y;
    MapLayout layout;
    MapShift shift = {};
  };
};

// dx, dweight, dbias of the above, fully written; parts left undefined are not
// computed. Sums over sequences combine in their order.
struct MapConvBackward {
  static constexpr const char* name = "map_conv_backward";
  struct Args {
    TensorView dy, x, weight;
    Output dx, dweight, dbias;  // each optional
    MapLayout layout;
    MapShift shift = {};
  };
};

}  // namespace ea
