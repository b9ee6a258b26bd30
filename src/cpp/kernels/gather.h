// Contract: gathering of rows by index, and scatter-add, its backward.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// y[i, :] = x[index[i], :]; index -1 gives zeros. x [n, width], index int64 [m]
// with -1 <= index < n (checked by the op), y [m, width]; any dtype.
struct GatherRows {
  static constexpr const char* name = "gather_rows";
  struct Args {
    TensorView x, index;
    Output y;
  };
};

// dx = 0; dx[index[i], :] += dy[i, :] in the order of i. Indices -1 and `skip`
// are skipped: the row of a padding id gets no gradient. Repeated rows are
// summed in float32 (float64 for float64).
struct ScatterAddRows {
  static constexpr const char* name = "scatter_add_rows";
  struct Args {
    TensorView dy, index;
    Output dx;
    std::int64_t skip = -1;
  };
};

}  // namespace ea
