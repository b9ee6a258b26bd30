// Contract: attention of the newest token of each sequence over cached rows.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// y_b^h = sum_t P_t v_{r(b, t)}^h,  P = softmax_t(scale q_b^h . k_{r(b, t)}^h)
// with r(b, t) = rows[offsets[b] + t] for t < offsets[b + 1] - offsets[b], at
// least one; P rounded to the type of q. q, y [sequences, heads * d], k, v [any
// rows, heads * d], all contiguous, of one dtype; rows, offsets: int64, 0 <= r
// < rows of k (the op has checked). Head h in columns h d .. (h+1) d. Sums in
// float32 (float64 for float64); a sequence's result depends on nothing but its
// own rows.
struct CachedAttention {
  static constexpr const char* name = "cached_attention";
  struct Args {
    TensorView q, k, v, rows, offsets;
    Output y;
    std::int64_t heads;
    double scale;
  };
};

}  // namespace ea
