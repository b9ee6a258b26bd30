// The weight gradient of the convolution over heads on AMX tiles.
//
// For each tap (u, v) of the kernel a tile [input head][output head] holds the
// sums. It accumulates the products of 32 cells of all input heads, as they
// lie in the block, and of the same cells of the gradient, transposed to [pair
// of cells][output head].
#pragma once

#include "kernels/cpu/simd/amx_taps-inl.h"
#include "kernels/cpu/simd/map_sums-inl.h"

#if defined(__AVX512F__)

namespace ea::simd::EA_TARGET {
namespace {

// sums[t] += cells of x[offset[t]] times `transposed`, for kTaps taps and
// `blocks` blocks of 32 cells.
template <int kTaps>
void correlate_tiles(const bfloat16* x, std::int64_t stride,
                     const std::int64_t* offset, const float* transposed,
                     std::int64_t blocks, float* sums) {
  constexpr std::make_integer_sequence<int, kTaps> all;
  constexpr int kLeft = kSumTiles, kRight = kSumTiles + 1;
  for_tiles(all, [&](auto t) { load_tile<t>(sums + t * kTileCells, kLanes); });
  for (std::int64_t i = 0; i < blocks; ++i) {
    load_tile<kRight>(transposed + i * kTileCells, kLanes);
    for_tiles(all, [&](auto t) {
      load_tile<kLeft>(x + offset[t] + i * 2 * kLanes, stride);
      add_products<t, kLeft, kRight>();
    });
  }
  for_tiles(all, [&](auto t) { store_tile<t>(sums + t * kTileCells, kLanes); });
}

// Transposes n cells of `heads` rows of g to [pair of cells][head], with zeros
// up to a multiple of 32 cells and 16 heads.
inline void transpose_cells(const bfloat16* g, std::int64_t stride,
                            std::int64_t heads, std::int64_t n,
                            float* transposed) {
  for (std::int64_t p = 0; p < n; p += 2 * kLanes) {
    const std::int64_t left = n - p < 2 * kLanes ? n - p : 2 * kLanes;
    const Halves part(left);
    Vf rows[kLanes];
#pragma GCC unroll 16
    for (int o = 0; o < kLanes; ++o) {
      rows[o] = o < heads ? Pairs::load(g + o * stride + p, part) : set(0.0f);
    }
    transpose(rows);
#pragma GCC unroll 16
    for (int q = 0; q < kLanes; ++q) store(transposed + q * kLanes, rows[q]);
    transposed += kTileCells;
  }
}

// As WeightSums of other cells; a tile for each tap and pair of groups of
// heads.
template <>
class WeightSums<Tiles> {
 public:
  using Map = bfloat16;
  static std::int64_t size(std::int64_t heads, std::int64_t taps) {
    const std::int64_t groups = ceil_div(heads, kLanes);
    return groups * groups * taps / heads * kTileCells + kTransposed + kLine;
  }

  WeightSums(float* memory, std::int64_t heads, std::int64_t taps)
      : transposed_(aligned(memory)),
        sums_(transposed_ + kTransposed),
        heads_(heads),
        kernel_(taps / heads),
        groups_(heads, kLanes) {
    clear(sums_, groups_.count * groups_.count * kernel_ * kTileCells);
  }

  void add(const Padded<Map>& g, std::int64_t halo, const Map* x,
           const std::int64_t* offset, std::int64_t rows) {
    const Map* const first = g.data + g.radius + halo * g.width;
    const std::int64_t positions = rows * g.width - g.radius;
    for (std::int64_t i = 0; i < groups_.count; ++i) {
      const std::int64_t c = groups_.begin(i);
      const TileSetup setup(groups_.begin(i + 1) - c, kLanes, kSumTiles);
      for (std::int64_t p = 0; p < positions; p += kChunk) {
        const std::int64_t n = positions - p < kChunk ? positions - p : kChunk;
        for (std::int64_t j = 0; j < groups_.count; ++j) {
          const std::int64_t o = groups_.begin(j);
          transpose_cells(first + o * g.head_stride + p, g.head_stride,
                          groups_.begin(j + 1) - o, n, transposed_);
          add_chunk(x + p, g.head_stride, offset + c * kernel_,
                    ceil_div(n, 2 * kLanes), tiles_of(i, j));
        }
      }
    }
  }

  void finish(float* dweight) const {
    for (std::int64_t i = 0; i < groups_.count; ++i) {
      for (std::int64_t j = 0; j < groups_.count; ++j) {
        for (std::int64_t c = groups_.begin(i); c < groups_.begin(i + 1); ++c) {
          for (std::int64_t o = groups_.begin(j); o < groups_.begin(j + 1);
               ++o) {
            const float* const at = tiles_of(i, j) +
                                    (c - groups_.begin(i)) * kLanes + o -
                                    groups_.begin(j);
            float* const to = dweight + (o * heads_ + c) * kernel_;
            for (std::int64_t t = 0; t < kernel_; ++t) {
              to[t] = at[t * kTileCells];
            }
          }
        }
      }
    }
  }

 private:
  static constexpr std::int64_t kChunk = 512;  // cells; all heads fit the L1
  static constexpr std::int64_t kTransposed = kChunk / 2 * kLanes;

  float* tiles_of(std::int64_t i, std::int64_t j) const {
    return sums_ + (i * groups_.count + j) * kernel_ * kTileCells;
  }

  void add_chunk(const Map* x, std::int64_t stride, const std::int64_t* offset,
                 std::int64_t blocks, float* sums) const {
    const Groups taps(kernel_, kSumTiles);
    for (std::int64_t i = 0; i < taps.count; ++i) {
      const std::int64_t t = taps.begin(i);
      with_count<kSumTiles>(taps.begin(i + 1) - t, [&](auto count) {
        correlate_tiles<count>(x, stride, offset + t, transposed_, blocks,
                               sums + t * kTileCells);
      });
    }
  }

  float *transposed_, *sums_;
  std::int64_t heads_, kernel_;
  Groups groups_;
};

}  // namespace
}  // namespace ea::simd::EA_TARGET

#endif
