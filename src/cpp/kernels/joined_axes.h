// Axes of two operands, merged for loops over a contiguous result.
#pragma once

#include "tensor/tensor_view.h"

namespace ea {

// Axes of `shape`, innermost first, with the steps of u and v; adjacent axes
// are merged where step = inner size x inner step for both (0 = 0 x anything if
// both axes are broadcast). Without axes, size[0] = 1 and the steps are 0. The
// constructor is inlined because SIMD sources share no function.
struct JoinedAxes {
  int rank = 0;
  std::int64_t size[Shape::kMaxRank] = {1};
  std::int64_t u[Shape::kMaxRank] = {}, v[Shape::kMaxRank] = {};

  __attribute__((always_inline)) JoinedAxes(const Shape& shape,
                                            const Shape& steps_u,
                                            const Shape& steps_v) {
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const std::int64_t n = shape[axis];
      if (n == 1) continue;
      const int last = rank - 1;
      if (last >= 0 && steps_u[axis] == size[last] * u[last] &&
          steps_v[axis] == size[last] * v[last]) {
        size[last] *= n;
        continue;
      }
      size[rank] = n;
      u[rank] = steps_u[axis];
      v[rank] = steps_v[axis];
      ++rank;
    }
  }
};

}  // namespace ea
