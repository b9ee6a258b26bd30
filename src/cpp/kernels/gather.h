// Contract: rows by index, and the scatter-add that is its backward.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// y[i, :] = x[index[i], :]; index -1 gives zeros. x [n, width], index int64
// [m] with -1 <= index < n (the op has checked), y [m, width]; any dtype.
struct GatherRows {
  static constexpr const char* name = "gather_rows";
  struct Args {
    TensorView x, index;
    Output y;
  };
};

// dx = 0; dx[index[i], :] += dy[i, :] in the order of i. Indices -1 and `skip`
// are passed over: the row of a padding id gets no gradient. Sums run in
// float32 (float64 for float64) where rows repeat.
struct ScatterAddRows {
  static constexpr const char* name = "scatter_add_rows";
  struct Args {
    TensorView dy, index;
    Output dx;
    std::int64_t skip = -1;
  };
};

}  // namespace ea
