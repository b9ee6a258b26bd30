// Products of small matrices for attention: C = scale A B with B packed.
//
// B is packed once into panels of kPanel columns, each [depth][kPanel] with
// zeros after the last column (whole vectors after it are not even written). A
// tile of C, kTileRows x 2 vectors, stays in registers over the whole depth;
// every vector of B is used kTileRows times.
//
// A and B consist of the cells of pairs-inl.h, neighbours in depth; depth
// counts cells.
#pragma once

#include "kernels/cpu/simd/pairs-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

constexpr int kPanelVectors = 2;
constexpr int kPanel = kPanelVectors * kLanes;
#if defined(__AVX512F__)
constexpr int kTileRows = 12;  // 24 of 32 registers
#else
constexpr int kTileRows = 6;  // 12 of 16 registers
#endif

EA_INLINE std::int64_t packed_size(std::int64_t depth, std::int64_t cols) {
  return (cols + kPanel - 1) / kPanel * kPanel * depth;
}

// Interleaves two vectors lane by lane into a lower and an upper half.
EA_INLINE void interleave(Vf a, Vf b, Vf& low, Vf& high) {
#if defined(__AVX512F__)
  low = __builtin_shuffle(
      a, b, Vi{0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23});
  high = __builtin_shuffle(
      a, b, Vi{8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31});
#else
  low = __builtin_shuffle(a, b, Vi{0, 8, 1, 9, 2, 10, 3, 11});
  high = __builtin_shuffle(a, b, Vi{4, 12, 5, 13, 6, 14, 7, 15});
#endif
}

// Transposes a kLanes x kLanes block: log2(kLanes) rounds, each interleaving
// row i with row i + kLanes / 2.
EA_INLINE void transpose(Vf (&rows)[kLanes]) {
#pragma GCC unroll 4
  for (int round = 1; round < kLanes; round *= 2) {
    Vf next[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      interleave(rows[i], rows[i + kLanes / 2], next[2 * i], next[2 * i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = next[i];
  }
}

// Packs B [depth, cols], stored row-major with row stride `stride`, into panels
// of kVectors vectors.
template <int kVectors = kPanelVectors, typename T>
void pack(const T* b, std::int64_t stride, std::int64_t depth,
          std::int64_t cols, float* packed) {
  for (std::int64_t col = 0; col < cols; col += kVectors * kLanes) {
    for (std::int64_t k = 0; k < depth; ++k) {
      for (int v = 0; v < kVectors; ++v) {
        const std::int64_t left = cols - col - v * kLanes;
        if (left > 0) {
          const Part part(left < kLanes ? left : kLanes);
          store(packed, load(b + k * stride + col + v * kLanes, part));
        }
        packed += kLanes;
      }
    }
  }
}

// Packs the block of kLanes columns and depth kLanes at b, stored transposed,
// with kWidth floats per row. The matrix has `cols` columns and `depth` left.
template <int kWidth, typename T>
EA_INLINE void pack_block(const T* b, std::int64_t stride, std::int64_t depth,
                          std::int64_t cols, float* packed) {
  Vf rows[kLanes];
  if (cols >= kLanes && depth >= kLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = load(b + i * stride);
    transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) store(packed + i * kWidth, rows[i]);
  } else {
    const Part part(depth < kLanes ? depth : kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      rows[i] = i < cols ? load(b + i * stride, part) : set(0);
    }
    transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if (i < depth) store(packed + i * kWidth, rows[i]);
    }
  }
}

// Packs B [depth, cols], stored transposed as [cols, depth] with row stride
// `stride`, into panels of kVectors vectors.
template <int kVectors = kPanelVectors, typename T>
void pack_transposed(const T* b, std::int64_t stride, std::int64_t depth,
                     std::int64_t cols, float* packed) {
  constexpr std::int64_t kWidth = kVectors * kLanes;
  for (std::int64_t col = 0; col < cols; col += kLanes) {
    float* const at = packed + col / kWidth * kWidth * depth + col % kWidth;
    for (std::int64_t k = 0; k < depth; k += kLanes) {
      pack_block<kWidth>(b + col * stride + k, stride, depth - k, cols - col,
                         at + k * kWidth);
    }
  }
}

// A [rows, depth]: cell (i, k) at data[i row + k col]; one of the two is 1.
struct Factor {
  const float* data;
  std::int64_t row, col;
};

// Computes a kRows x kVectors tile of C; the last vector holds `last` columns.
template <typename Cells, bool kTransposed, int kRows, int kVectors>
void tile(const float* a, std::int64_t stride, const float* b,
          std::int64_t depth, float scale, float* c, std::int64_t c_stride,
          Part last) {
  Vf sum[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[i][v] = set(0);
  }
  // Addressing rows in threes from few pointers keeps addresses in registers.
  const std::int64_t three = 3 * stride;
  for (std::int64_t k = 0; k < depth; ++k) {
    Vf column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) column[v] = load(b + v * kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const Vf x = set(
          cell_at(kTransposed ? a + i : a + i / 3 * three + i % 3 * stride));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sum[i][v] = Cells::add(sum[i][v], x, column[v]);
      }
    }
    b += kPanel;
    a += kTransposed ? stride : 1;
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const Vf y = sum[i][v] * set(scale);
      float* at = c + i * c_stride + v * kLanes;
      if (v + 1 < kVectors) {
        store(at, y);
      } else {
        store(at, y, last);
      }
    }
  }
}

template <typename Cells, bool kTransposed, int kVectors>
void tile_of(std::int64_t rows, const float* a, std::int64_t stride,
             const float* b, std::int64_t depth, float scale, float* c,
             std::int64_t c_stride, Part last) {
  with_count<kTileRows>(rows, [&](auto n) {
    tile<Cells, kTransposed, n, kVectors>(a, stride, b, depth, scale, c,
                                          c_stride, last);
  });
}

// C [rows, cols] = scale A B for the packed B [depth, cols].
template <typename Cells = Floats>
void multiply(Factor a, const float* packed, std::int64_t rows,
              std::int64_t depth, std::int64_t cols, float scale, float* c,
              std::int64_t c_stride) {
  const bool transposed = a.col != 1;
  const std::int64_t stride = transposed ? a.col : a.row;
  const std::int64_t blocks = (rows + kTileRows - 1) / kTileRows;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t i = rows * block / blocks;
    const std::int64_t count = rows * (block + 1) / blocks - i;
    for (std::int64_t j = 0; j < cols; j += kPanel) {
      const std::int64_t left = cols - j < kPanel ? cols - j : kPanel;
      const bool wide = left > kLanes;
      const Part last(wide ? left - kLanes : left);
      (transposed ? wide ? tile_of<Cells, true, 2> : tile_of<Cells, true, 1>
       : wide ? tile_of<Cells, false, 2>
              : tile_of<Cells, false, 1>)(count, a.data + i * a.row, stride,
                                          packed + j * depth, depth, scale,
                                          c + i * c_stride + j, c_stride, last);
    }
  }
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
