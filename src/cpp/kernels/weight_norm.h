// Contract: weight normalisation: each row is a length times a direction.
#pragma once

#include "tensor/tensor_view.h"

namespace ea {

// w[r] = g[r] v[r] / |v[r]|. v, w: contiguous [rows, width]; g [rows]. norm
// [rows] receives |v[r]|, in float32 (float64 for float64). A row of zeros has
// no direction and gives NaN.
struct WeightNormForward {
  static constexpr const char* name = "weight_norm_forward";
  struct Args {
    TensorView v, g;
    Output w, norm;
  };
};

// With u = v / |v|: dg = dw u; dv = g / |v| (dw - u (dw u)).
struct WeightNormBackward {
  static constexpr const char* name = "weight_norm_backward";
  struct Args {
    TensorView dw, v, g, norm;
    Output dv, dg;
  };
};

}  // namespace ea
