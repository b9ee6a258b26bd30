// Contract: products by distance spread over attention maps, and their sums.
#pragma once

#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// y[b, h, i, j] = x[(q_offsets[b] + i) heads + h, D + clip(j - i, -D, D)].
// x [total queries * heads, 2 D + 1] contiguous, a column for each distance
// -D .. D; y flat maps in `layout`, fully written; n_q and n_k may differ. One
// dtype.
struct RelativeCells {
  static constexpr const char* name = "relative_cells";
  struct Args {
    TensorView x;
    Output y;
    MapLayout layout;
  };
};

// The transpose: y[(q_offsets[b] + i) heads + h, D + e] is the sum of x[b, h,
// i, j] over the keys j with clip(j - i, -D, D) = e, zero where there is none.
// x flat maps in `layout`; y [total queries * heads, 2 D + 1] contiguous, fully
// written. Only the two outer columns are sums of several cells: in float32
// (float64 for float64), in an order that depends on their number alone.
struct RelativeSums {
  static constexpr const char* name = "relative_sums";
  struct Args {
    TensorView x;
    Output y;
    MapLayout layout;
  };
};

}  // namespace ea
