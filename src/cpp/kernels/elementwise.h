// Contract: pointwise arithmetic of one or two tensors.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

enum class BinaryOp : std::uint8_t { add, sub, mul, div };

// y = a (op) b. y is contiguous; a and b have y's shape, with stride 0 along
// broadcast axes. All three have the same floating dtype.
struct Binary {
  static constexpr const char* name = "binary";
  struct Args {
    BinaryOp op;
    TensorView a, b;
    Output y;
  };
};

// y = alpha x + beta z, all contiguous and of equal shape; y = alpha x without
// z. y may alias x or z (gradients accumulate by y = y + x).
struct Axpby {
  static constexpr const char* name = "axpby";
  struct Args {
    double alpha;
    TensorView x;
    double beta;
    TensorView z;  // optional
    Output y;
  };
};

}  // namespace ea
