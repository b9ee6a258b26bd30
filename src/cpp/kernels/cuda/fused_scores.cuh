// Scores in a window of the convolution: the evolving step's input, made from
// queries and keys inside the block.
#pragma once

#include "kernels/cuda/attention_forms.cuh"
#include "kernels/cuda/conv_kernel.cuh"
#include "kernels/cuda/evolve_cells.cuh"
#include "kernels/fused_attention.h"

namespace ea::cuda {

// Eight elements of a token row from k on, 0 beyond its end; of no row, zeros.
__device__ inline uint4 token_eight(const bfloat16* row, int k, int width) {
  if (row == nullptr || k >= width) return uint4{0u, 0u, 0u, 0u};
  row += k;
  if (k + 8 <= width && reinterpret_cast<std::uintptr_t>(row) % 16 == 0) {
    return *reinterpret_cast<const uint4*>(row);
  }
  float values[8];
  load_pack(row, width - k, false, values);
  return pack(values);
}

// Calls fn(h, row, column, s) for all cells of a window of 16 rows, by one
// thread each: S = scale Q K^T, 0 beyond the maps. bfloat16: a warp makes 16 x
// 8 cells of a head at a time, some of its columns, in products whose depth is
// taken in the order in which a thread of four has eight elements of a row; the
// rows come from cache.
template <typename Fn>
__device__ inline void each_score(const MapBlock& at, const Window& w,
                                  const TokenRows<bfloat16>& q,
                                  const TokenRows<bfloat16>& k, float scale,
                                  const Fn& fn) {
  constexpr int kChunk = 32, kChunks = 2, kAtOnce = kChunk * kChunks;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int across = (w.width + kTileN - 1) / kTileN, half = (across + 1) / 2;
  const int width = static_cast<int>(q.width);
  for (int job = static_cast<int>(threadIdx.x) / kWarp; job < 2 * w.heads;
       job += kConvWarps) {
    const int h = job / 2, from = job % 2 * half;
    const int to = job % 2 == 0 ? half : across;
    const auto query = [&](int row) -> const bfloat16* {
      const int i = w.top + row;
      return i >= 0 && i < at.queries ? q.row(at.first_query + i, h) : nullptr;
    };
    const bfloat16* const rows[2] = {query(lane / 4), query(lane / 4 + 8)};
    uint4 a[kChunks][2];
#pragma unroll 1
    for (int tile = from; tile < to; ++tile) {
      const int column = tile * kTileN;
      const int j = w.left + column + lane / 4;
      const bfloat16* const key =
          j >= 0 && j < at.keys ? k.row(at.first_key + j, h) : nullptr;
      FragmentC sum;
#pragma unroll 1
      for (int begin = 0; begin < width; begin += kAtOnce) {
        const int e = begin + lane % 4 * 8;
        if (tile == from || width > kAtOnce) {
#pragma unroll
          for (int c = 0; c < kChunks; ++c) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              a[c][r] = token_eight(rows[r], e + c * kChunk, width);
            }
          }
        }
#pragma unroll
        for (int c = 0; c < kChunks; ++c) {
          if (begin + c * kChunk >= width) break;
          const uint4 b = token_eight(key, e + c * kChunk, width);
          mma(sum, {{a[c][0].x, a[c][1].x, a[c][0].y, a[c][1].y}},
              {{b.x, b.y}});
          mma(sum, {{a[c][0].z, a[c][1].z, a[c][0].w, a[c][1].w}},
              {{b.z, b.w}});
        }
      }
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int here = column + column_of_c(lane, c);
        if (here < w.width) fn(h, row_of_c(lane, c), here, scale * sum.c[c]);
      }
    }
  }
}

template <typename Fn>
__device__ inline void each_score(const MapBlock& at, const Window& w,
                                  const TokenRows<float>& q,
                                  const TokenRows<float>& k, float scale,
                                  const Fn& fn) {
  each_of_window(w, [&](int h, int row, int column) {
    float sum = 0.0f;
    if (w.inside(at, row, column)) {
      const float* const left = q.row(at.first_query + w.top + row, h);
      const float* const right = k.row(at.first_key + w.left + column, h);
      for (std::int64_t e = 0; e < q.width; ++e) sum += left[e] * right[e];
    }
    fn(h, row, column, scale * sum);
  });
}

// A window of I = a M + b S from queries and keys. mixed(h, row, column, m, s)
// sees M and S of every cell on the way, 0 where it does not exist.
template <typename T>
struct ScoredWindow {
  static constexpr int kCount = kFloatParts;
  TokenRows<T> q, k;
  const T* previous;  // or null
  const T* bias;      // of the scores, or null
  float scale;
  EvolveNumbers c;

  template <typename Cells, typename Mixed>
  __device__ void fill(const MapBlock& at, const Window& w, const Cells& to,
                       const Mixed& mixed) const {
    each_score(at, w, q, k, scale, [&](int h, int row, int column, float s) {
      const int i = w.top + row, j = w.left + column;
      const bool there = w.inside(at, row, column) && at.exists(i, j);
      float m = 0.0f;
      if (!there) {
        s = 0.0f;
      } else {
        const std::int64_t cell = at.row(h, i) + j;
        if (bias != nullptr) s += static_cast<float>(bias[cell]);
        if (previous != nullptr) m = static_cast<float>(previous[cell]);
      }
      to.template put<kCount>(row, column, h, c.a * m + c.b * s);
      mixed(h, row, column, m, s);
    });
  }
  template <typename Cells>
  __device__ void fill(const MapBlock& at, const Window& w,
                       const Cells& to) const {
    fill(at, w, to, [](int, int, int, float, float) {});
  }
};

// Stores scale sum + bias.
template <typename T>
struct StoreBiased {
  float* to;
  const T* bias;  // or null
  float scale;
  __device__ void operator()(std::int64_t cell, bool exists, float sum) const {
    const float more = bias == nullptr ? 0.0f : static_cast<float>(bias[cell]);
    to[cell] = exists ? scale * sum + more : 0.0f;
  }
};

// S of all heads as float32 maps, where no window can make them.
template <typename T>
void store_scores(const FusedAttention& in, float* to) {
  const std::int64_t heads = in.layout.heads;
  run_products<T>(in.layout,
                  MapForm<T, StoreBiased<T>>{{in.q, heads},
                                             {in.k, heads},
                                             {to, in.score_bias.as<T>(),
                                              static_cast<float>(in.scale)}});
}

template <typename T>
MixedCells<T, float> mixed_cells(const FusedAttention& in,
                                 const float* scores) {
  return {in.previous.as<T>(), scores, in.c};
}

template <typename T>
ScoredWindow<T> scored_window(const FusedAttention& in) {
  const std::int64_t heads = in.layout.heads;
  return {{in.q, heads},
          {in.k, heads},
          in.previous.as<T>(),
          in.score_bias.as<T>(),
          static_cast<float>(in.scale),
          in.c};
}

}  // namespace ea::cuda
