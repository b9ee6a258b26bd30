// Contract: (batched) matrix product with an optional bias.
#pragma once

#include "tensor/storage.h"
#include "tensor/tensor_view.h"

namespace ea {

// y = alpha op(a) op(b) + bias, where op transposes the last two axes if asked.
// a, b, y are all [m, k] [k, n] [m, n] matrices, or all [batch, ., .]. The last
// axis of each has stride 1; the row stride (strides[rank-2]) of a and b may be
// larger than the row. y is contiguous. bias: [n], optional. One dtype for all.
// Products accumulate in float32 (float64 for float64). k = 0 gives the bias.
// kept_b: the storage of b, where b is a weight that many products share: what
// an implementation makes of b it may keep there (Storage::keep).
struct MatMul {
  static constexpr const char* name = "matmul";
  struct Args {
    TensorView a, b;
    TensorView bias;  // optional
    TensorView y;
    bool transpose_a, transpose_b;
    double alpha;
    const Storage* kept_b = nullptr;
  };
};

}  // namespace ea
