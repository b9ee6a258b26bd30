// Copies matrices for products: transposed, or padded with zeros.
#pragma once

#include <cstdint>

#include "runtime/bfloat16.h"

namespace ea::onednn {

// to [cols, to_stride] = transpose of from [rows, cols], padded with zeros from
// `rows` to to_stride, which is a multiple of 8. Runs on the pool.
void transpose_padded(const bfloat16* from, std::int64_t stride,
                      std::int64_t rows, std::int64_t cols, bfloat16* to,
                      std::int64_t to_stride);

void transpose_padded(const float* from, std::int64_t stride, std::int64_t rows,
                      std::int64_t cols, float* to, std::int64_t to_stride);

// to [to_rows, to_cols] = from [rows, cols], padded with zeros.
void copy_padded(const bfloat16* from, std::int64_t stride, std::int64_t rows,
                 std::int64_t cols, bfloat16* to, std::int64_t to_rows,
                 std::int64_t to_cols);

}  // namespace ea::onednn
