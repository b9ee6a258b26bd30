// Contract: normalisation of channels over the rows of a batch.
#pragma once

#include "tensor/tensor_view.h"

namespace ea {

// mean[c], variance[c] of the rows of x [rows, width], rows >= 1; the variance
// is the biased one, mean (x - mean)^2. Both float32 (float64 for float64);
// fixed blocks of rows combine in order.
struct BatchStatistics {
  static constexpr const char* name = "batch_statistics";
  struct Args {
    TensorView x;
    Output mean, variance;
  };
};

// running = (1 - momentum) running + momentum factor now, where that is finite:
// a batch that is not must not spoil what the others left. Both [width], of one
// wide type.
struct MoveAverage {
  static constexpr const char* name = "move_average";
  struct Args {
    TensorView now;
    InOut running;
    double momentum, factor;
  };
};

// y = (x - mean) rstd weight + bias + residual, rstd = 1/sqrt(variance + eps),
// or max(that, 0) with `rectify`. x, y, residual [rows, width] contiguous;
// weight, bias [width] of their type; mean, variance, rstd [width] as above.
// rstd is written.
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

// With h = (x - mean) rstd: dbias = sum_rows dy; dweight = sum_rows dy h; dx =
// weight rstd (dy - dbias / rows - h dweight / rows) where mean and variance
// are those of x (of_batch), else weight rstd dy. Sums as above. With a bias dy
// counts only where y > 0: the gradient of a rectified y without residual.
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
