// Contract: the vector of the query plus the vector of the key, for every cell.
#pragma once

#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// y[b, h, i, j, :] = u[q_offsets[b] + i, h, :] + v[k_offsets[b] + j, h, :].
// u [total queries, heads * c], v [total keys, heads * c]: contiguous. y is
// flat: the cells in the order of `layout`, c values each. All have one dtype;
// additions are in float32 (float64 for float64).
struct PairSum {
  static constexpr const char* name = "pair_sum";
  struct Args {
    TensorView u, v;
    Output y;
    MapLayout layout;
  };
};

// du[i, h, :] = sum_j dy[b, h, i, j, :] in the order of j, dv[j, h, :] = sum_i
// dy[b, h, i, j, :] in the order of i, in float32 (float64 for float64). Both
// are contiguous and fully written; an undefined output is not computed.
struct PairSumBackward {
  static constexpr const char* name = "pair_sum_backward";
  struct Args {
    TensorView dy;
    Output du, dv;  // each optional
    MapLayout layout;
  };
};

}  // namespace ea
