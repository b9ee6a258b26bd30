// Contract: spreads products by distance over attention maps, and sums them
// back.
#pragma once

#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// y[b, h, i, j] = x[(q_offsets[b] + i) heads + h, D + clip(j - i, -D, D)].
// x: contiguous [total queries * heads, 2 D + 1], one column for each distance
// -D .. D. y: flat maps in `layout`, fully written; n_q and n_k may differ.
// Both have one dtype.
struct RelativeCells {
  static constexpr const char* name = "relative_cells";
  struct Args {
    TensorView x;
    Output y;
    MapLayout layout;
  };
};

// Transpose of RelativeCells: y[(q_offsets[b] + i) heads + h, D + e] is the sum
// of x[b, h, i, j] over the keys j with clip(j - i, -D, D) = e, or zero if
// there is none. x: flat maps in `layout`; y: contiguous [total queries *
// heads, 2 D + 1], fully written. Only the two outer columns are sums of
// several cells: in float32 (float64 for float64), in an order that depends
// only on their number.
struct RelativeSums {
  static constexpr const char* name = "relative_sums";
  struct Args {
    TensorView x;
    Output y;
    MapLayout layout;
  };
};

}  // namespace ea
