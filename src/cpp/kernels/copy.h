// Contract: copies, conversions and fills in memory that the host cannot
// access. The CPU uses tensor/copy.cpp and registers none of these kernels.
#pragma once

#include "tensor/tensor_view.h"

namespace ea {

// y = x, of equal shape and (any) dtype. Both have arbitrary strides; x may
// have stride 0 along broadcast axes. x and y do not overlap.
struct Copy {
  static constexpr const char* name = "copy";
  struct Args {
    TensorView x;
    Output y;
  };
};

// y = x converted to the dtype of y: contiguous, of equal shape, any two
// dtypes. Floats are truncated to integers; bfloat16 is rounded to nearest
// even.
struct Cast {
  static constexpr const char* name = "cast";
  struct Args {
    TensorView x;
    Output y;
  };
};

// Sets every element of y to `value` in its dtype; y is contiguous, of any
// dtype.
struct Fill {
  static constexpr const char* name = "fill";
  struct Args {
    Output y;
    double value;
  };
};

// Passes functions that launch these kernels to tensor/.
// register_all_backends() calls it.
void connect_device_copies();

}  // namespace ea
