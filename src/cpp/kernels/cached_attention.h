// Contract: attention of the newest token of each sequence over cached rows.
#pragma once

#include <cstdint>

#include "kernels/evolve.h"
#include "tensor/tensor_view.h"

namespace ea {

// The evolving step of one row of the maps. previous, carry: flat maps of one
// row for each sequence, head h of sequence b from heads offsets[b] + h n on;
// undefined: p = a = 0, or not wanted. Where w != 0: weight and bias of the
// convolution, of side 2 shift.down + 1; maps [any, heads, room], where each
// row of I lies behind side - 1 zeros, 2 (side - 1) zeros behind it; and
// map_rows, int64 [sequences, side]: the numbers in maps of the rows of I of
// the last tokens, oldest first, -1 before a target's first, and of the new
// one.
struct CachedMaps {
  TensorView previous, weight, bias, map_rows;
  InOut maps;  // the new rows are written
  Output carry;
  EvolveCoefficients c = {0, 0, 0, 1, 0};
  MapShift shift = {};
  double softmax_scale = 1.0;

  bool convolves() const { return weight.defined(); }
};

// S_t = scale q_b^h . k_{r(b, t)}^h; I = a M + b S; L = p M + s S + w ReLU(Z),
// Z being the row of kernels/map_conv.h that belongs to the newest token, 0
// above shift.down; P = softmax_t(softmax_scale L), the carry L;
// y_b^h = sum_t P_t v_{r(b, t)}^h, with r(b, t) = rows[offsets[b] + t] for t <
// n = offsets[b + 1]
// - offsets[b], at least one. I, P and the carry are rounded to the type of q.
// q, y [sequences, heads * d], k, v [any rows, heads * d], all contiguous, of
// one dtype; rows, offsets: int64, 0 <= r < rows of k (the op has checked).
// Head h in columns h d .. (h+1) d. Sums in float32 (float64 for float64); a
// sequence's result depends on nothing but its own rows.
struct CachedAttention {
  static constexpr const char* name = "cached_attention";
  struct Args {
    TensorView q, k, v, rows, offsets;
    Output y;
    std::int64_t heads;
    double scale;
    CachedMaps evolving = {};
  };
};

}  // namespace ea
