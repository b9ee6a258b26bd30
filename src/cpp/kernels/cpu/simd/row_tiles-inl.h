// Products of rows and a panel of a packed right factor; each row is summed
// independently.
//
// A sum stays in one lane of a register over a stretch of the depth, which is
// summed in order, and stretches are added in order. Its bits therefore depend
// only on a row of a and a column of b, not on the number of rows or their
// partition into tiles. Depth counts cells (pairs-inl.h).
#pragma once

#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/tile-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Size of a tile: with AVX-512, 24 of 32 registers are sums, with AVX2 12 of
// 16. A wider panel needs fewer loads per sum.
constexpr int kTileHeight = 6;
#if defined(__AVX512F__)
constexpr int kTileVectors = 4;
#else
constexpr int kTileVectors = 2;
#endif
constexpr std::int64_t kTileColumns = kTileVectors * kLanes;  // per panel

// Returns the first row of block `block` of `rows` rows; blocks are as even as
// possible.
EA_INLINE std::int64_t block_begin(std::int64_t rows, std::int64_t block) {
  return rows * block / ceil_div(rows, std::int64_t{kTileHeight});
}

// Returns the stride of the blocks of a repacked a. The extra line spreads them
// over the sets of a cache.
EA_INLINE std::int64_t turned_block(std::int64_t depth) {
  return depth * kTileHeight + kLine;
}

// Depth of a stretch. Shorter stretches reduce the error of a long sum.
constexpr std::int64_t kStretch = 512;

// Stores the sums of a tile, or adds them to the sums of earlier stretches.
template <int kRows>
EA_INLINE void put_sums(const Vf (&sum)[kRows][kTileVectors], bool add,
                        float* sums) {
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      float* at = sums + i * kTileColumns + v * kLanes;
      store(at, add ? load(at) + sum[i][v] : sum[i][v]);
    }
  }
}

// Lines to prefetch: step k of the depth takes line k >> shift from `from`.
struct Ahead {
  const float* from;
  int shift;
};

// Multiplies kRows rows by one panel, and prefetches.
template <typename Cells, int kRows, bool kTurned>
void few_rows(const float* a, std::int64_t stride, const float* packed,
              std::int64_t depth, Ahead ahead, bool add, float* sums) {
  Vf sum[kRows][kTileVectors];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) sum[i][v] = set(0);
  }
  const std::int64_t three = 3 * stride;
  for (std::int64_t k = 0; k < depth; ++k, packed += kTileColumns) {
    __builtin_prefetch(ahead.from + (k >> ahead.shift) * kLine);
    Vf column[kTileVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      column[v] = load(packed + v * kLanes);
    }
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const Vf x =
          set(cell_at(kTurned ? a + k * kTileHeight + i
                              : a + i / 3 * three + i % 3 * stride + k));
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        sum[i][v] = Cells::add(sum[i][v], x, column[v]);
      }
    }
  }
  put_sums(sum, add, sums);
}

// Multiplies `rows` rows by one stretch of a panel, from depth k, and
// prefetches that stretch of the next panel, spread over the blocks of rows:
// all lines at once would wait for memory.
template <typename Cells, bool kTurned>
void stretch(const Factor& a, const float* packed, std::int64_t rows,
             std::int64_t depth, std::int64_t k, bool add, float* sums) {
  const std::int64_t count = depth - k < kStretch ? depth - k : kStretch;
  const std::int64_t blocks = ceil_div(rows, kTileHeight);
  const float* const from = packed + k * kTileColumns;
  const float* const next = from + depth * kTileColumns;
  constexpr std::int64_t kLines = kTileColumns / kLine;  // of one step
  int shift = 0;
  while (blocks >> (shift + 1) >= kLines) ++shift;
  const std::int64_t each = (count >> shift) * kLine;  // by one block
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t i = block_begin(rows, block);
    const float* at =
        kTurned ? a.data + block * turned_block(depth) + k * kTileHeight
                : a.data + i * a.row + k;
    float* to = sums + i * kTileColumns;
    const bool more = block * each < count * kTileColumns;
    const Ahead ahead{more ? next + block * each : from, shift};
    with_count<kTileHeight>(block_begin(rows, block + 1) - i, [&](auto n) {
      few_rows<Cells, n, kTurned>(at, a.row, from, count, ahead, add, to);
    });
  }
}

// Computes sums [rows, kTileColumns] = a times a panel [depth, kTileColumns],
// or adds this product to them.
template <typename Cells, bool kTurned>
void panel_sums(const Factor& a, const float* packed, std::int64_t rows,
                std::int64_t depth, bool add, float* sums) {
  // If depth is 0, one empty stretch stores zeros.
  for (std::int64_t k = 0; k == 0 || k < depth; k += kStretch) {
    stretch<Cells, kTurned>(a, packed, rows, depth, k, add || k > 0, sums);
  }
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
