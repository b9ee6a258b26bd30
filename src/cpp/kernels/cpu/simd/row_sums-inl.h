// Sums over the rows of a matrix, in blocks of rows_per_block() rows.
#pragma once

#include "kernels/cpu/simd/jobs-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Partition of rows into blocks of rows_per_block() with sums of their own.
struct Blocks {
  std::int64_t rows, size, count;
  Blocks(std::int64_t total, std::int64_t width)
      : rows(total),
        size(rows_per_block(total, width)),
        count(ceil_div(total, size)) {}
  EA_INLINE std::int64_t rows_of(std::int64_t b) const {
    return rows - b * size < size ? rows - b * size : size;
  }
};

// acc[i] += sum of x[r * inner + i] over the rows, four rows at a time.
template <typename T>
void add_rows(const T* x, std::int64_t rows, std::int64_t inner, float* acc) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * inner) {
    for_vectors(inner, [&](std::int64_t i, auto part) {
      const Vf ab = load(x + i, part) + load(x + inner + i, part);
      const Vf cd =
          load(x + 2 * inner + i, part) + load(x + 3 * inner + i, part);
      store(acc + i, load(acc + i, part) + (ab + cd), part);
    });
  }
  for (; r < rows; ++r, x += inner) {
    for_vectors(inner, [&](std::int64_t i, auto part) {
      store(acc + i, load(acc + i, part) + load(x + i, part), part);
    });
  }
}

// y[o, i] = sum over blocks b of partial[o, b, i], in the order of b.
template <typename T>
void combine_rows(const float* partial, T* y, std::int64_t outer,
                  std::int64_t blocks, std::int64_t inner) {
  constexpr std::int64_t kColumns = 256;
  const std::int64_t strips = ceil_div(inner, kColumns);
  parallel_each(outer * strips,
                items_per_job((inner < kColumns ? inner : kColumns) * blocks),
                [&](std::int64_t item) {
                  const std::int64_t o = item / strips;
                  const std::int64_t i = item % strips * kColumns;
                  combine_blocks(partial + o * blocks * inner + i, blocks,
                                 inner, y + o * inner + i,
                                 inner - i < kColumns ? inner - i : kColumns);
                });
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
