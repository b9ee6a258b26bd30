// Contract: sums over an axis and over lists of tensors, in a fixed order.
#pragma once

#include <vector>

#include "tensor/tensor_view.h"

namespace ea {

// y[o, i] = sum_n x[o, n, i]; x is contiguous [outer, n, inner], y [outer,
// inner]. Sums run in float32 (float64 for float64) over fixed blocks. On the
// CPU, fours of zeros after the last whole four of rows leave the bits of y.
struct Sum {
  static constexpr const char* name = "sum";
  struct Args {
    TensorView x;
    Output y;
  };
};

// result = sum of the squares of all elements of all tensors, one float64
// number. Fixed blocks are reduced in order, so the result does not depend on
// the number of threads. It is infinite or NaN iff an element is (up to
// overflow of the square).
struct SumOfSquares {
  static constexpr const char* name = "sum_of_squares";
  struct Args {
    const std::vector<TensorView>* xs;
    Output result;
  };
};

}  // namespace ea
