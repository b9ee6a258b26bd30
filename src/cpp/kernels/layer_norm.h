// Contract: layer normalisation of rows, with an optional residual input and
// an optional dropout before it.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// s = x + residual (s = x without one); with p > 0, which needs a residual,
// s = d + residual, d the dropout of x as kernels/dropout.h makes and stores
// it. y = (s - mean(s)) * rstd(s) * weight + bias,   rstd = 1/sqrt(var(s) +
// eps). x, residual, sum, y: [rows, width] contiguous. mean, rstd: [rows],
// float32 (float64 for float64). `sum` receives s and is given iff residual is.
struct LayerNormForward {
  static constexpr const char* name = "layer_norm_forward";
  struct Args {
    TensorView x;
    TensorView residual;  // optional
    TensorView weight, bias;
    Output sum;  // optional
    Output y, mean, rstd;
    double eps;
    double p = 0.0;  // of dropout
    std::uint64_t seed = 0, stream = 0;
  };
};

// With h = (s - mean) rstd and g = dy weight:
// dx = rstd (g - mean(g) - h mean(g h)); dweight = sum_rows dy h;
// dbias = sum_rows dy. `x` is s. Row sums combine fixed blocks in order. With
// p > 0, dresidual receives dx and dx the dropout of it, by the same bits.
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
