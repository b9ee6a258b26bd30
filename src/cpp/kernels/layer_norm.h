// Contract: layer normalisation of rows, with optional dropout of the input and
// addition of a residual before it.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// s = x + residual (s = x without a residual). If p > 0, which requires a
// residual, s = d + residual, where d is the dropout of x, computed and rounded
// as in kernels/dropout.h. y = (s - mean(s)) * rstd(s) * weight + bias,
// rstd = 1/sqrt(var(s) + eps). x, residual, sum, y: contiguous [rows, width].
// mean, rstd: [rows], float32 (float64 for float64). `sum` receives s; it is
// given iff residual is.
struct LayerNormForward {
  static constexpr const char* name = "layer_norm_forward";
  struct Args {
    TensorView x;
    TensorView residual;  // optional
    TensorView weight, bias;
    Output sum;  // optional
    Output y, mean, rstd;
    double eps;
    double p = 0.0;  // dropout probability
    std::uint64_t seed = 0, stream = 0;
  };
};

// With h = (s - mean) rstd and g = dy weight:
// dx = rstd (g - mean(g) - h mean(g h)); dweight = sum_rows dy h;
// dbias = sum_rows dy. `x` is s. Sums over rows reduce fixed blocks in order.
// If p > 0, dresidual receives this dx, and dx receives the dropout of it, with
// the random bits of the forward pass.
struct LayerNormBackward {
  static constexpr const char* name = "layer_norm_backward";
  struct Args {
    TensorView dy, x, weight, mean, rstd;
    Output dx, dweight, dbias;
    Output dresidual = {};  // given iff p > 0
    double p = 0.0;
    std::uint64_t seed = 0, stream = 0;
  };
};

}  // namespace ea
