// Scores in a window of the convolution: the evolving step's input, made from
// queries and keys inside the block.
#pragma once

#include "kernels/cuda/attention_forms.cuh"
#include "kernels/cuda/conv_kernel.cuh"
#include "kernels/cuda/evolve_cells.cuh"
#include "kernels/fused_attention.h"

namespace ea::cuda {

// Elements k, k + 1 of a token row, 0 beyond its end.
__device__ inline std::uint32_t token_pair(const bfloat16* row, int k,
                                           int width) {
  if (row == nullptr || k >= width) return 0u;
  if (k + 1 == width) return row[k].bits;
  if (reinterpret_cast<std::uintptr_t>(row + k) % 4 != 0) {
    return pair_of(row[k], row[k + 1]);
  }
  return *reinterpret_cast<const std::uint32_t*>(row + k);
}

// S = scale Q K^T of all heads into a window of 16 rows, 0 beyond the maps.
// bfloat16: a warp makes 16 x 8 cells of one head; the rows come from cache.
__device__ inline void score_window(const MapBlock& at, const Window& w,
                                    const TokenRows<bfloat16>& q,
                                    const TokenRows<bfloat16>& k, float scale,
                                    float* to) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int across = (w.width + kTileN - 1) / kTileN;
  const int width = static_cast<int>(q.width);
  for (int job = static_cast<int>(threadIdx.x) / kWarp; job < across * w.heads;
       job += kConvWarps) {
    const int h = job / across, column = job % across * kTileN;
    const auto query = [&](int row) -> const bfloat16* {
      const std::int64_t i = w.top + row;
      return i >= 0 && i < at.queries ? q.row(at.first_query + i, h) : nullptr;
    };
    const std::int64_t j = w.left + column + lane / 4;
    const bfloat16* const key =
        j >= 0 && j < at.keys ? k.row(at.first_key + j, h) : nullptr;
    const bfloat16* const upper = query(lane / 4);
    const bfloat16* const lower = query(lane / 4 + 8);
    FragmentC sum;
    for (int e = lane % 4 * 2; e - lane % 4 * 2 < width; e += kTileK) {
      const FragmentA a{
          {token_pair(upper, e, width), token_pair(lower, e, width),
           token_pair(upper, e + 8, width), token_pair(lower, e + 8, width)}};
      const FragmentB b{
          {token_pair(key, e, width), token_pair(key, e + 8, width)}};
      mma(sum, a, b);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int to_column = column + column_of_c(lane, c);
      if (to_column < w.width) {
        to[w.at(row_of_c(lane, c), to_column) + h] = scale * sum.c[c];
      }
    }
  }
}

__device__ inline void score_window(const MapBlock& at, const Window& w,
                                    const TokenRows<float>& q,
                                    const TokenRows<float>& k, float scale,
                                    float* to) {
  each_of_window(w, [&](int h, int row, int column) {
    float sum = 0.0f;
    if (w.inside(at, row, column)) {
      const float* const left = q.row(at.first_query + w.top + row, h);
      const float* const right = k.row(at.first_key + w.left + column, h);
      for (std::int64_t e = 0; e < q.width; ++e) sum += left[e] * right[e];
    }
    to[w.at(row, column) + h] = scale * sum;
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

  template <typename Mixed>
  __device__ void fill(const MapBlock& at, const Window& w, float* to,
                       const Mixed& mixed) const {
    score_window(at, w, q, k, scale, to);
    __syncthreads();
    each_of_window(w, [&](int h, int row, int column) {
      float& cell = to[w.at(row, column) + h];
      const std::int64_t i = w.top + row, j = w.left + column;
      const bool there = w.inside(at, row, column) && at.exists(i, j);
      float s = there ? cell : 0.0f;
      if (there && bias != nullptr) {
        s += static_cast<float>(bias[at.row(h, i) + j]);
      }
      const float m = there && previous != nullptr
                          ? static_cast<float>(previous[at.row(h, i) + j])
                          : 0.0f;
      cell = c.a * m + c.b * s;
      mixed(h, row, column, m, s);
    });
  }
  __device__ void fill(const MapBlock& at, const Window& w, float* to) const {
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
