// Contract: root mean square normalisation of rows; no mean is subtracted.
#pragma once

#include "tensor/tensor_view.h"

namespace ea {

// y = x * rrms(x) * weight,   rrms = 1 / sqrt(mean(x^2) + eps). x, y:
// contiguous [rows, width]; weight [width]; one dtype. rrms [rows] and the sums
// are in float32 (float64 for float64).
struct RmsNormForward {
  static constexpr const char* name = "rms_norm_forward";
  struct Args {
    TensorView x, weight;
    Output y, rrms;
    double eps;
  };
};

// With h = x rrms and g = dy weight:
// dx = rrms (g - h mean(g h)); dweight = sum_rows dy h. Sums over rows reduce
// fixed blocks in order.
struct RmsNormBackward {
  static constexpr const char* name = "rms_norm_backward";
  struct Args {
    TensorView dy, x, weight, rrms;
    Output dx, dweight;
  };
};

}  // namespace ea
