// Contract: attention of the newest token of each sequence over cached rows.
#pragma once

#include <cstdint>

#include "kernels/evolve.h"
#include "tensor/tensor_view.h"

namespace ea {

// Arguments of the evolving step for one row of the maps.
// previous, carry: flat maps with one row per sequence; head h of sequence b
// starts at element heads offsets[b] + h n. previous is undefined if p = a = 0,
// carry if it is not wanted.
// If w != 0:
// weight, bias: those of the convolution, of kernel size
// side = 2 shift.down + 1;
// maps [any, heads, room]: rows of I, each with side - 1 zeros before it and
// 2 (side - 1) zeros after it;
// map_rows, int64 [sequences, side]: numbers in maps of the rows of I of the
// last tokens, oldest first, then of the new token; -1 before the first token
// of a target.
struct CachedMaps {
  TensorView previous, weight, bias, map_rows;
  InOut maps;  // the new rows are written
  Output carry;
  EvolveCoefficients c = kVanillaStep;
  MapShift shift = {};
  double softmax_scale = 1.0;

  bool convolves() const { return weight.defined(); }
};

// S_t = scale q_b^h . k_{r(b, t)}^h; I = a M + b S; L = p M + s S + w ReLU(Z),
// where Z is the row of kernels/map_conv.h for the newest token, 0 in the first
// shift.down rows; P = softmax_t(softmax_scale L); the carry is L;
// y_b^h = sum_t P_t v_{r(b, t)}^h. Here r(b, t) = rows[offsets[b] + t] for
// t < n, n = offsets[b + 1] - offsets[b] >= 1. I, P and the carry are rounded
// to the dtype of q.
// q, y [sequences, heads * d], k, v [any rows, heads * d]: contiguous, of one
// dtype; head h has columns h d .. (h+1) d. rows, offsets: int64, 0 <= r < rows
// of k (checked by the op). Sums are in float32 (float64 for float64). The
// result of a sequence depends only on its own rows.
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
