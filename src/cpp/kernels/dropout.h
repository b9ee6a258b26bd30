// Contract: counter-based dropout; the backward is the same kernel on dy.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// y[i] = x[i] / (1 - p) if kept, else 0. Element i of the contiguous tensor is
// kept iff word i % 4 of philox(seed, stream, i / 4) >= dropout_threshold(p)
// (runtime/philox.h): no mask is stored. 0 <= p < 1. y may be x.
struct Dropout {
  static constexpr const char* name = "dropout";
  struct Args {
    TensorView x;
    Output y;
    double p;
    std::uint64_t seed, stream;
  };
};

}  // namespace ea
