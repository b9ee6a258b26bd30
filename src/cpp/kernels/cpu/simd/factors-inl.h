// Operands of attention's products: rows of one head of a tensor, float32 in
// place, bfloat16 by way of float32.
#pragma once

#include "kernels/cpu/simd/tile-inl.h"
#include "tensor/tensor_view.h"

namespace ea::simd::EA_TARGET {
namespace {

// Rows of one head inside a [tokens, heads * d] matrix.
template <typename T>
struct Rows {
  T* data;
  std::int64_t stride;
};

template <typename T>
EA_INLINE Rows<T> rows_of(const TensorView& t, std::int64_t token,
                          std::int64_t column) {
  const std::int64_t stride = t.strides[0];
  return {t.as<T>() + token * stride + column, stride};
}

// Returns factor A [rows, cols] of a product: float32 in place, bfloat16
// widened into `wide`.
EA_INLINE Factor factor(const float* a, std::int64_t stride, std::int64_t,
                        std::int64_t, float*) {
  return {a, stride, 1};
}
EA_INLINE Factor factor(const bfloat16* a, std::int64_t stride,
                        std::int64_t rows, std::int64_t cols, float* wide) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for_vectors(cols, [&](std::int64_t j, auto part) {
      store(wide + i * cols + j, load(a + i * stride + j, part), part);
    });
  }
  return {wide, cols, 1};
}

#if defined(__AVX512F__)
// Returns rows of a bfloat16 matrix as cells. Copies them to `own` unless they
// are whole pairs.
EA_INLINE Factor pair_rows(const bfloat16* a, std::int64_t stride,
                           std::int64_t rows, std::int64_t cols, float* own) {
  if (in_pairs(stride, cols)) {
    return {reinterpret_cast<const float*>(a), stride / 2, 1};
  }
  const std::int64_t cells = (cols + 1) / 2;
  for (std::int64_t i = 0; i < rows; ++i) {
    copy_cells(a + i * stride, cols, own + i * cells);
  }
  return {own, cells, 1};
}
#endif

EA_INLINE Factor transposed(Factor a) { return {a.data, a.col, a.row}; }

template <typename Cells = Floats>
EA_INLINE void multiply_into(Factor a, const float* packed, std::int64_t rows,
                             std::int64_t depth, std::int64_t cols, float scale,
                             Rows<float> c, float*) {
  multiply<Cells>(a, packed, rows, depth, cols, scale, c.data, c.stride);
}
template <typename Cells = Floats>
EA_INLINE void multiply_into(Factor a, const float* packed, std::int64_t rows,
                             std::int64_t depth, std::int64_t cols, float scale,
                             Rows<bfloat16> c, float* wide) {
  multiply<Cells>(a, packed, rows, depth, cols, scale, wide, cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    for_vectors(cols, [&](std::int64_t j, auto part) {
      store(c.data + i * c.stride + j, load(wide + i * cols + j, part), part);
    });
  }
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
