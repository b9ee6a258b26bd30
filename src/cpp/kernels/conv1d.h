// Contract: dilated convolution along the rows of packed sequences.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// Rows that a tap reads: tap j of row t reads row t + j dilation - reach of the
// same sequence, or zero if that row is outside the sequence. Sequence b has
// the rows offsets[b] .. offsets[b + 1]. 0 <= reach <= (taps - 1) dilation <
// 2^31.
struct Conv1dTaps {
  const std::int64_t* offsets;
  std::int64_t sequences;
  std::int64_t dilation, reach;
};

// y[t, o] = bias[o] + sum_{c, j} weight[o, c, j] x[t + j dilation - reach, c].
// x [tokens, in], y [tokens, out], weight [out, in, taps], bias [out] or none:
// contiguous, of one dtype. Sums are in float32 (float64 for float64).
struct Conv1dForward {
  static constexpr const char* name = "conv1d_forward";
  struct Args {
    TensorView x, weight;
    TensorView bias;  // optional
    Output y;
    Conv1dTaps taps;
  };
};

// Computes dx and dweight of Conv1dForward, fully written; an undefined output
// is not computed. dbias is the sum of the rows of dy, computed elsewhere. Sums
// over tokens reduce fixed blocks in order.
struct Conv1dBackward {
  static constexpr const char* name = "conv1d_backward";
  struct Args {
    TensorView dy, x, weight;
    Output dx, dweight;  // each optional
    Conv1dTaps taps;
  };
};

}  // namespace ea
