// Contract: convolution over the heads of attention maps.
#pragma once

#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// Shift of the result Z of the centred convolution: cell (i, j) holds
// Z[i - down, j - right], or 0 if i < down or j < right. Both are at least 0.
struct MapShift {
  std::int64_t down = 0, right = 0;

  constexpr bool none() const { return down == 0 && right == 0; }
};

// y[o, i, j] = bias[o] + sum_{c, u, v} weight[o, c, u, v] x[c, i + u - r,
// j + v - r] for each sequence, with r = (kernel_size - 1) / 2. Cells outside
// the sequence's own n_q x n_k map are zero (cross-correlation, stride 1).
// Heads are channels: weight [heads, heads, k, k], k odd, bias [heads]. x, y:
// flat maps in `layout`, which defines the existing cells. y is shifted by
// `shift`. All have one dtype; sums are in float32 (float64 for float64).
struct MapConvForward {
  static constexpr const char* name = "map_conv_forward";
  struct Args {
    TensorView x, weight, bias;
    Output y;
    MapLayout layout;
    MapShift shift = {};
  };
};

// Computes dx, dweight and dbias of MapConvForward, fully written; an undefined
// output is not computed. Sums over sequences accumulate in their order.
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
