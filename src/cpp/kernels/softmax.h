// Contract: masked softmax over the keys of attention maps.
#pragma once

#include "kernels/map_layout.h"
#include "tensor/tensor_view.h"

namespace ea {

// y = softmax over keys of (scale x), for each head and query row of each
// sequence; x, y: flat maps in `layout`. Cells that do not exist
// (kernels/map_layout.h) get probability exactly 0, and a row without existing
// cells is all zeros. A row with a NaN or +inf in an existing cell becomes NaN.
// The softmax of a [rows, width] matrix is one sequence with one head.
struct SoftmaxForward {
  static constexpr const char* name = "softmax_forward";
  struct Args {
    TensorView x;
    Output y;
    double scale;
    MapLayout layout;
  };
};

// dx = scale y (dy - sum_keys dy y), from the saved output y.
struct SoftmaxBackward {
  static constexpr const char* name = "softmax_backward";
  struct Args {
    TensorView dy, y;
    Output dx;
    double scale;
    MapLayout layout;
  };
};

}  // namespace ea
