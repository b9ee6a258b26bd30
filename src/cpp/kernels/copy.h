// Contract: copies, conversions and fills where the host cannot reach. On the
// CPU these are tensor/copy.cpp, and no list has them.
#pragma once

#include "tensor/tensor_view.h"

namespace ea {

// y = x: one shape and dtype (any), strides of both free, those of x 0 along
// axes that it repeats. x and y do not overlap.
struct Copy {
  static constexpr const char* name = "copy";
  struct Args {
    TensorView x;
    Output y;
  };
};

// y = x in the type of y: contiguous, one shape, any two dtypes. Floats that
// become integers lose their fraction; bfloat16 is rounded to nearest, even.
struct Cast {
  static constexpr const char* name = "cast";
  struct Args {
    TensorView x;
    Output y;
  };
};

// Every element of y = value, in its type; y contiguous, of any dtype.
struct Fill {
  static constexpr const char* name = "fill";
  struct Args {
    Output y;
    double value;
  };
};

// Lets the tensor room start them: register_all_backends() calls this.
void connect_device_copies();

}  // namespace ea
