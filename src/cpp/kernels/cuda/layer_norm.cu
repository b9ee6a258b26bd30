// LayerNorm with residual and dropout: one block per row; later passes read the
// row from cache.
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/column_chunks.cuh"
#include "kernels/cuda/dropped.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/layer_norm.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 128;

template <typename T>
struct ForwardParams {
  const T *x, *residual, *weight, *bias;
  T *sum, *y;
  float *mean, *rstd;
  std::int64_t width;
  float eps;
  DropBits drop;
  bool aligned;
};

template <typename T>
__global__ void __launch_bounds__(kThreads) forward_kernel(ForwardParams<T> p) {
  EA_SHARED(float, partial, kWarp);
  const std::int64_t begin = blockIdx.x * p.width;
  const T* s = p.x + begin;
  float v[kPack<T>], r[kPack<T>];
  float total = 0.0f;
  for_my_packs<T, kThreads>(p.width, [&](std::int64_t i, std::int64_t count) {
    load_pack(s + i, count, p.aligned, v);
    if (p.residual != nullptr) {
      if (p.drop.on()) drop_pack<T>(p.drop, begin + i, v);
      load_pack(p.residual + begin + i, count, p.aligned, r);
#pragma unroll
      // The statistics are computed from the rounded sum, because the backward
      // pass sees the rounded sum.
      for (int k = 0; k < kPack<T>; ++k) v[k] = stored<T>(v[k] + r[k]);
      store_pack(p.sum + begin + i, count, p.aligned, v);
    }
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) total += v[k];
  });
  // Each thread reads back only what it wrote.
  if (p.residual != nullptr) s = p.sum + begin;
  const float n = static_cast<float>(p.width);
  const float mean = block_sum(total, partial) / n;
  float squares = 0.0f;
  for_my_packs<T, kThreads>(p.width, [&](std::int64_t i, std::int64_t count) {
    load_pack(s + i, count, p.aligned, v);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      const float centred = k < count ? v[k] - mean : 0.0f;
      squares += centred * centred;
    }
  });
  const float variance = block_sum(squares, partial) / n;
  const float rstd = 1.0f / sqrtf(variance + p.eps);
  if (threadIdx.x == 0) {
    p.mean[blockIdx.x] = mean;
    p.rstd[blockIdx.x] = rstd;
  }
  for_my_packs<T, kThreads>(p.width, [&](std::int64_t i, std::int64_t count) {
    float b[kPack<T>];
    load_pack(s + i, count, p.aligned, v);
    load_pack(p.weight + i, count, p.aligned, r);
    load_pack(p.bias + i, count, p.aligned, b);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k)
      v[k] = (v[k] - mean) * rstd * r[k] + b[k];
    store_pack(p.y + begin + i, count, p.aligned, v);
  });
}

template <typename T>
struct BackwardParams {
  const T *dy, *x, *weight;
  const float *mean, *rstd;
  T *dx, *dresidual;
  std::int64_t width;
  DropBits drop;
  bool aligned;
};

// dx = rstd (g - mean(g) - h mean(g h)), g = dy weight, h = (x - mean) rstd;
// kernels/ref/layer_norm.cpp derives it.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(BackwardParams<T> p) {
  EA_SHARED(float, partial, kWarp);
  const std::int64_t begin = blockIdx.x * p.width;
  const float mean = p.mean[blockIdx.x];
  const float rstd = p.rstd[blockIdx.x];
  float g[kPack<T>], h[kPack<T>], w[kPack<T>];
  const auto load = [&](std::int64_t i, std::int64_t count) {
    load_pack(p.dy + begin + i, count, p.aligned, g);
    load_pack(p.x + begin + i, count, p.aligned, h);
    load_pack(p.weight + i, count, p.aligned, w);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      h[k] = (h[k] - mean) * rstd;
      g[k] *= w[k];  // 0 past the end of the row
    }
  };
  float sum_g = 0.0f, sum_gh = 0.0f;
  for_my_packs<T, kThreads>(p.width, [&](std::int64_t i, std::int64_t count) {
    load(i, count);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      sum_g += g[k];
      sum_gh += g[k] * h[k];
    }
  });
  const float n = static_cast<float>(p.width);
  const float mean_g = block_sum(sum_g, partial) / n;
  const float mean_gh = block_sum(sum_gh, partial) / n;
  for_my_packs<T, kThreads>(p.width, [&](std::int64_t i, std::int64_t count) {
    load(i, count);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      g[k] = rstd * (g[k] - mean_g - h[k] * mean_gh);
    }
    if (p.drop.on()) {
      store_pack(p.dresidual + begin + i, count, p.aligned, g);
#pragma unroll
      for (int k = 0; k < kPack<T>; ++k) g[k] = stored<T>(g[k]);
      drop_pack<T>(p.drop, begin + i, g);
    }
    store_pack(p.dx + begin + i, count, p.aligned, g);
  });
}

// One row's terms of dweight and dbias.
template <typename T>
struct ParameterTerms {
  static constexpr int kSums = 2;
  const T *dy, *x;
  const float *mean, *rstd;
  std::int64_t width;

  __device__ void operator()(std::int64_t row, std::int64_t column,
                             float (&values)[kSums]) const {
    const float d = static_cast<float>(dy[row * width + column]);
    const float s = static_cast<float>(x[row * width + column]);
    values[0] = d * ((s - mean[row]) * rstd[row]);
    values[1] = d;
  }
};

template <typename T>
void forward_of(const LayerNormForward::Args& args) {
  const std::int64_t width = args.x.dim(1);
  ForwardParams<T> p{args.x.as<T>(),
                     args.residual.as<T>(),
                     args.weight.as<T>(),
                     args.bias.as<T>(),
                     args.sum.as<T>(),
                     args.y.as<T>(),
                     args.mean.as<float>(),
                     args.rstd.as<float>(),
                     width,
                     static_cast<float>(args.eps),
                     DropBits(args.p, args.seed, args.stream),
                     false};
  p.aligned = packs_aligned(p.x, width) && packs_aligned(p.residual) &&
              packs_aligned(p.weight) && packs_aligned(p.bias) &&
              packs_aligned(p.sum) && packs_aligned(p.y);
  launch(current_stream(), blocks_for(args.x.dim(0), 1), kThreads, 0,
         forward_kernel<T>, p);
}

template <typename T>
void backward_of(const LayerNormBackward::Args& args) {
  const std::int64_t rows = args.x.dim(0);
  const std::int64_t width = args.x.dim(1);
  BackwardParams<T> p{args.dy.as<T>(),
                      args.x.as<T>(),
                      args.weight.as<T>(),
                      args.mean.as<float>(),
                      args.rstd.as<float>(),
                      args.dx.as<T>(),
                      args.dresidual.as<T>(),
                      width,
                      DropBits(args.p, args.seed, args.stream),
                      false};
  p.aligned = packs_aligned(p.dy, width) && packs_aligned(p.x) &&
              packs_aligned(p.weight) && packs_aligned(p.dx) &&
              packs_aligned(p.dresidual);
  // This runs before dx is written, because dx may alias dy.
  const ColumnChunks sums(ParameterTerms<T>{p.dy, p.x, p.mean, p.rstd, width},
                          rows, width);
  sums.finish(0, args.dweight.as<T>());
  sums.finish(1, args.dbias.as<T>());
  launch(current_stream(), blocks_for(rows, 1), kThreads, 0, backward_kernel<T>,
         p);
}

}  // namespace

EA_RUN_CUDA(LayerNormForward, forward_of, x)
EA_RUN_CUDA(LayerNormBackward, backward_of, x)

}  // namespace ea::cuda
