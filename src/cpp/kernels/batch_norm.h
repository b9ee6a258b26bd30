// Contract: normalisation of channels over the rows of a batch.
#pragma once

#include "tensor/tensor_view.h"

namespace ea {

// mean[c] and variance[c] over the rows of x [rows, width], rows >= 1. The
// variance is the biased one, mean (x - mean)^2. Both are float32 (float64 for
// float64). Fixed blocks of rows are reduced in order.
struct BatchStatistics {
  static constexpr const char* name = "batch_statistics";
  struct Args {
    TensorView x;
    Output mean, variance;
  };
};

// running = (1 - momentum) running + momentum factor now. An element keeps its
// value if the result is not finite, so that one bad batch does not spoil the
// average. Both are [width], of equal type, float32 or float64.
struct MoveAverage {
  static constexpr const char* name = "move_average";
  struct Args {
    TensorView now;
    InOut running;
    double momentum, factor;
  };
};

// y = (x - mean) rstd weight + bias + residual, rstd = 1/sqrt(variance + eps).
// With `rectify`, y is replaced by max(y, 0). x, y, residual: contiguous [rows,
// width]; weight, bias: [width], of their dtype; mean, variance, rstd: [width],
// in the type of BatchStatistics. rstd is an output.
struct BatchNormForward {
  static constexpr const char* name = "batch_norm_forward";
  struct Args {
    TensorView x, weight, bias, mean, variance;
    Output y, rstd;
    double eps;
    TensorView residual = {};  // optional
    bool rectify = false;
  };
};

// With h = (x - mean) rstd: dbias = sum_rows dy; dweight = sum_rows dy h;
// dx = weight rstd (dy - dbias / rows - h dweight / rows) if mean and variance
// are those of x (of_batch), else weight rstd dy. Sums are as in
// BatchStatistics. If bias is given, dy counts only where y > 0: the gradient
// of a rectified y without residual.
struct BatchNormBackward {
  static constexpr const char* name = "batch_norm_backward";
  struct Args {
    TensorView dy, x, weight, mean, rstd;
    Output dx, dweight, dbias;
    bool of_batch;
    TensorView bias = {};  // optional
  };
};

}  // namespace ea
