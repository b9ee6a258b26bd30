// Column sums of float partials: the last step of sums that kernels compute in
// chunks of rows.
#pragma once

#include <cstdint>

#include "runtime/bfloat16.h"

namespace ea::cuda {

// y[i] = sum over n of x[n, i] / divisor, on the current stream.
void sum_columns(const float* x, float* y, std::int64_t n, std::int64_t inner,
                 float divisor = 1.0f);
void sum_columns(const float* x, bfloat16* y, std::int64_t n,
                 std::int64_t inner, float divisor = 1.0f);

}  // namespace ea::cuda
