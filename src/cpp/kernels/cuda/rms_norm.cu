// Root mean square normalisation: one block per row; later passes read the row
// from cache.
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/column_chunks.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/rms_norm.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 128;

template <typename T>
struct ForwardParams {
  const T *x, *weight;
  T* y;
  float* rrms;
  std::int64_t width;
  float eps;
  bool aligned;
};

template <typename T>
__global__ void __launch_bounds__(kThreads) forward_kernel(ForwardParams<T> p) {
  EA_SHARED(float, partial, kWarp);
  const std::int64_t begin = blockIdx.x * p.width;
  float v[kPack<T>], w[kPack<T>];
  float squares = 0.0f;
  for_my_packs<T, kThreads>(p.width, [&](std::int64_t i, std::int64_t count) {
    load_pack(p.x + begin + i, count, p.aligned, v);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) squares += v[k] * v[k];
  });
  const float mean = block_sum(squares, partial) / static_cast<float>(p.width);
  const float rrms = 1.0f / sqrtf(mean + p.eps);
  if (threadIdx.x == 0) p.rrms[blockIdx.x] = rrms;
  for_my_packs<T, kThreads>(p.width, [&](std::int64_t i, std::int64_t count) {
    load_pack(p.x + begin + i, count, p.aligned, v);
    load_pack(p.weight + i, count, p.aligned, w);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) v[k] = v[k] * rrms * w[k];
    store_pack(p.y + begin + i, count, p.aligned, v);
  });
}

template <typename T>
struct BackwardParams {
  const T *dy, *x, *weight;
  const float* rrms;
  T* dx;
  std::int64_t width;
  bool aligned;
};

// dx = rrms (g - h mean(g h)), g = dy weight, h = x rrms;
// kernels/ref/rms_norm.cpp derives it.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(BackwardParams<T> p) {
  EA_SHARED(float, partial, kWarp);
  const std::int64_t begin = blockIdx.x * p.width;
  const float rrms = p.rrms[blockIdx.x];
  float g[kPack<T>], h[kPack<T>], w[kPack<T>];
  const auto load = [&](std::int64_t i, std::int64_t count) {
    load_pack(p.dy + begin + i, count, p.aligned, g);
    load_pack(p.x + begin + i, count, p.aligned, h);
    load_pack(p.weight + i, count, p.aligned, w);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      h[k] *= rrms;
      g[k] *= w[k];  // 0 past the end of the row
    }
  };
  float sum_gh = 0.0f;
  for_my_packs<T, kThreads>(p.width, [&](std::int64_t i, std::int64_t count) {
    load(i, count);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) sum_gh += g[k] * h[k];
  });
  const float mean_gh =
      block_sum(sum_gh, partial) / static_cast<float>(p.width);
  for_my_packs<T, kThreads>(p.width, [&](std::int64_t i, std::int64_t count) {
    load(i, count);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) g[k] = rrms * (g[k] - h[k] * mean_gh);
    store_pack(p.dx + begin + i, count, p.aligned, g);
  });
}

// One row's term of dweight.
template <typename T>
struct ParameterTerms {
  static constexpr int kSums = 1;
  const T *dy, *x;
  const float* rrms;
  std::int64_t width;

  __device__ void operator()(std::int64_t row, std::int64_t column,
                             float (&values)[kSums]) const {
    const float d = static_cast<float>(dy[row * width + column]);
    values[0] = d * (static_cast<float>(x[row * width + column]) * rrms[row]);
  }
};

template <typename T>
void forward_of(const RmsNormForward::Args& args) {
  const std::int64_t width = args.x.dim(1);
  ForwardParams<T> p{args.x.as<T>(), args.weight.as<T>(),
                     args.y.as<T>(), args.rrms.as<float>(),
                     width,          static_cast<float>(args.eps),
                     false};
  p.aligned = packs_aligned(p.x, width) && packs_aligned(p.weight) &&
              packs_aligned(p.y);
  launch(current_stream(), blocks_for(args.x.dim(0), 1), kThreads, 0,
         forward_kernel<T>, p);
}

template <typename T>
void backward_of(const RmsNormBackward::Args& args) {
  const std::int64_t rows = args.x.dim(0);
  const std::int64_t width = args.x.dim(1);
  BackwardParams<T> p{args.dy.as<T>(),
                      args.x.as<T>(),
                      args.weight.as<T>(),
                      args.rrms.as<float>(),
                      args.dx.as<T>(),
                      width,
                      false};
  p.aligned = packs_aligned(p.dy, width) && packs_aligned(p.x) &&
              packs_aligned(p.weight) && packs_aligned(p.dx);
  // This runs before dx is written, because dx may alias dy.
  const ColumnChunks sums(ParameterTerms<T>{p.dy, p.x, p.rrms, width}, rows,
                          width);
  sums.finish(0, args.dweight.as<T>());
  launch(current_stream(), blocks_for(rows, 1), kThreads, 0, backward_kernel<T>,
         p);
}

}  // namespace

EA_RUN_CUDA(RmsNormForward, forward_of, x)
EA_RUN_CUDA(RmsNormBackward, backward_of, x)

}  // namespace ea::cuda
