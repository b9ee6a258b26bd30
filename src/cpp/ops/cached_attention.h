// Attention of one new token of each sequence over the rows of a cache.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace ea {

// kernels/cached_attention.h: sequence b reads the rows with the numbers
// rows[offsets[b]] to rows[offsets[b + 1] - 1] of k and v. Without gradients.
// Throws ShapeError, DTypeError and InputError.
Tensor cached_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const std::vector<std::int64_t>& rows,
                        const std::vector<std::int64_t>& offsets,
                        std::int64_t heads, double scale);

}  // namespace ea
