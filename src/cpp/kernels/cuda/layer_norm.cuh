// Normalisation of rows, by mean and deviation or by the root mean square
// alone: one block per row; later passes read the row from cache.
#pragma once

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/column_chunks.cuh"
#include "kernels/cuda/dropped.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"

namespace ea::cuda {

inline constexpr int kNormThreads = 128;

// Without a mean (kCentred = false), residual, bias, sum and mean are null and
// scale is 1 / root mean square, otherwise 1 / deviation.
template <typename T>
struct NormParams {
  const T *x, *residual = nullptr, *weight, *bias = nullptr;
  T *sum = nullptr, *y;
  float *mean = nullptr, *scale;
  std::int64_t width;
  float eps;
  DropBits drop{0.0, 0, 0};
  bool aligned = false;
};

template <typename T, bool kCentred>
__global__ void __launch_bounds__(kNormThreads) norm_kernel(NormParams<T> p) {
  EA_SHARED(float, partial, kWarp);
  const std::int64_t begin = blockIdx.x * p.width;
  const float width = static_cast<float>(p.width);
  const T* s = p.x + begin;
  float v[kPack<T>], r[kPack<T>];
  float mean = 0.0f;
  if constexpr (kCentred) {
    float total = 0.0f;
    for_my_packs<T, kNormThreads>(p.width, [&](std::int64_t i, std::int64_t n) {
      load_pack(s + i, n, p.aligned, v);
      if (p.residual != nullptr) {
        if (p.drop.on()) drop_pack<T>(p.drop, begin + i, v);
        load_pack(p.residual + begin + i, n, p.aligned, r);
        // The statistics are computed from the rounded sum, because the
        // backward pass sees the rounded sum.
#pragma unroll
        for (int k = 0; k < kPack<T>; ++k) v[k] = stored<T>(v[k] + r[k]);
        store_pack(p.sum + begin + i, n, p.aligned, v);
      }
#pragma unroll
      for (int k = 0; k < kPack<T>; ++k) total += v[k];
    });
    // Each thread reads back only what it wrote.
    if (p.residual != nullptr) s = p.sum + begin;
    mean = block_sum(total, partial) / width;
  }
  float squares = 0.0f;
  for_my_packs<T, kNormThreads>(p.width, [&](std::int64_t i, std::int64_t n) {
    load_pack(s + i, n, p.aligned, v);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      if (kCentred) v[k] = k < n ? v[k] - mean : 0.0f;
      squares += v[k] * v[k];
    }
  });
  const float scale = 1.0f / sqrtf(block_sum(squares, partial) / width + p.eps);
  if (threadIdx.x == 0) {
    if constexpr (kCentred) p.mean[blockIdx.x] = mean;
    p.scale[blockIdx.x] = scale;
  }
  for_my_packs<T, kNormThreads>(p.width, [&](std::int64_t i, std::int64_t n) {
    float b[kPack<T>];
    load_pack(s + i, n, p.aligned, v);
    load_pack(p.weight + i, n, p.aligned, r);
    if constexpr (kCentred) load_pack(p.bias + i, n, p.aligned, b);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      if constexpr (kCentred) {
        v[k] = (v[k] - mean) * scale * r[k] + b[k];
      } else {
        v[k] = v[k] * scale * r[k];
      }
    }
    store_pack(p.y + begin + i, n, p.aligned, v);
  });
}

template <typename T>
struct NormGradParams {
  const T *dy, *x, *weight;
  const float *mean = nullptr, *scale;
  T *dx, *dresidual = nullptr;
  std::int64_t width;
  DropBits drop{0.0, 0, 0};
  bool aligned = false;
};

// dx = scale (g - mean(g) - h mean(g h)), g = dy weight, h = (x - mean) scale,
// without mean and mean(g) unless kCentred; kernels/ref derives it.
template <typename T, bool kCentred>
__global__ void __launch_bounds__(kNormThreads)
    norm_grad_kernel(NormGradParams<T> p) {
  EA_SHARED(float, partial, kWarp);
  const std::int64_t begin = blockIdx.x * p.width;
  const float mean = kCentred ? p.mean[blockIdx.x] : 0.0f;
  const float scale = p.scale[blockIdx.x];
  float g[kPack<T>], h[kPack<T>], w[kPack<T>];
  const auto load = [&](std::int64_t i, std::int64_t n) {
    load_pack(p.dy + begin + i, n, p.aligned, g);
    load_pack(p.x + begin + i, n, p.aligned, h);
    load_pack(p.weight + i, n, p.aligned, w);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      if constexpr (kCentred) h[k] -= mean;
      h[k] *= scale;
      g[k] *= w[k];  // 0 past the end of the row
    }
  };
  float sum_g = 0.0f, sum_gh = 0.0f;
  for_my_packs<T, kNormThreads>(p.width, [&](std::int64_t i, std::int64_t n) {
    load(i, n);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      if constexpr (kCentred) sum_g += g[k];
      sum_gh += g[k] * h[k];
    }
  });
  const float width = static_cast<float>(p.width);
  const float mean_g = kCentred ? block_sum(sum_g, partial) / width : 0.0f;
  const float mean_gh = block_sum(sum_gh, partial) / width;
  for_my_packs<T, kNormThreads>(p.width, [&](std::int64_t i, std::int64_t n) {
    load(i, n);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      if constexpr (kCentred) g[k] -= mean_g;
      g[k] = scale * (g[k] - h[k] * mean_gh);
    }
    if (kCentred && p.drop.on()) {
      store_pack(p.dresidual + begin + i, n, p.aligned, g);
#pragma unroll
      for (int k = 0; k < kPack<T>; ++k) g[k] = stored<T>(g[k]);
      drop_pack<T>(p.drop, begin + i, g);
    }
    store_pack(p.dx + begin + i, n, p.aligned, g);
  });
}

// One row's terms of dweight and, if kCentred, dbias.
template <typename T, bool kCentred>
struct NormTerms {
  static constexpr int kSums = kCentred ? 2 : 1;
  const T *dy, *x;
  const float *mean, *scale;
  std::int64_t width;

  __device__ void operator()(std::int64_t row, std::int64_t column,
                             float (&values)[kSums]) const {
    const float d = static_cast<float>(dy[row * width + column]);
    float s = static_cast<float>(x[row * width + column]);
    if constexpr (kCentred) s -= mean[row];
    values[0] = d * (s * scale[row]);
    if constexpr (kCentred) values[1] = d;
  }
};

template <bool kCentred, typename T>
void normalise(NormParams<T> p, std::int64_t rows) {
  p.aligned = packs_aligned(p.x, p.width) && packs_aligned(p.residual) &&
              packs_aligned(p.weight) && packs_aligned(p.bias) &&
              packs_aligned(p.sum) && packs_aligned(p.y);
  launch(current_stream(), blocks_for(rows, 1), kNormThreads, 0,
         norm_kernel<T, kCentred>, p);
}

// dbias: null unless kCentred.
template <bool kCentred, typename T>
void normalise_backward(NormGradParams<T> p, std::int64_t rows, T* dweight,
                        T* dbias) {
  p.aligned = packs_aligned(p.dy, p.width) && packs_aligned(p.x) &&
              packs_aligned(p.weight) && packs_aligned(p.dx) &&
              packs_aligned(p.dresidual);
  // This runs before dx is written, because dx may alias dy.
  const ColumnChunks sums(
      NormTerms<T, kCentred>{p.dy, p.x, p.mean, p.scale, p.width}, rows,
      p.width);
  sums.finish(0, dweight);
  if constexpr (kCentred) sums.finish(1, dbias);
  launch(current_stream(), blocks_for(rows, 1), kNormThreads, 0,
         norm_grad_kernel<T, kCentred>, p);
}

}  // namespace ea::cuda
