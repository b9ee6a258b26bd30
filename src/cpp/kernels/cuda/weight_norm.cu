// Weight normalisation: one block per row; later passes read it from cache.
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/weight_norm.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 128;

// Returns the sum over a row of a[i] b[i] to all threads.
template <typename T>
__device__ inline float product_of_rows(const T* a, const T* b,
                                        std::int64_t width, bool aligned,
                                        float* partial) {
  float total = 0.0f;
  for_my_packs<T, kThreads>(width, [&](std::int64_t i, std::int64_t count) {
    float u[kPack<T>], v[kPack<T>];
    load_pack(a + i, count, aligned, u);
    load_pack(b + i, count, aligned, v);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) total += u[k] * v[k];
  });
  return block_sum(total, partial);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const T* v, const T* g, T* w, float* norm,
                   std::int64_t width, bool aligned) {
  EA_SHARED(float, partial, kWarp);
  v += blockIdx.x * width;
  w += blockIdx.x * width;
  const float length = sqrtf(product_of_rows(v, v, width, aligned, partial));
  if (threadIdx.x == 0) norm[blockIdx.x] = length;
  const float scale = static_cast<float>(g[blockIdx.x]) / length;
  for_my_packs<T, kThreads>(width, [&](std::int64_t i, std::int64_t count) {
    float x[kPack<T>];
    load_pack(v + i, count, aligned, x);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) x[k] *= scale;
    store_pack(w + i, count, aligned, x);
  });
}

// dg = dw u, dv = g / |v| (dw - u (dw u)): kernels/ref/weight_norm.cpp derives
// it.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const T* dw, const T* v, const T* g, const float* norm,
                    T* dv, T* dg, std::int64_t width, bool aligned) {
  EA_SHARED(float, partial, kWarp);
  dw += blockIdx.x * width;
  v += blockIdx.x * width;
  dv += blockIdx.x * width;
  const float length = norm[blockIdx.x];
  const float along = product_of_rows(dw, v, width, aligned, partial) / length;
  if (threadIdx.x == 0) dg[blockIdx.x] = T(along);
  const float scale = static_cast<float>(g[blockIdx.x]) / length;
  for_my_packs<T, kThreads>(width, [&](std::int64_t i, std::int64_t count) {
    float d[kPack<T>], x[kPack<T>];
    load_pack(dw + i, count, aligned, d);
    load_pack(v + i, count, aligned, x);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      d[k] = scale * (d[k] - x[k] / length * along);
    }
    store_pack(dv + i, count, aligned, d);
  });
}

template <typename T>
void weight_norm_forward_of(const WeightNormForward::Args& args) {
  const std::int64_t width = args.v.dim(1);
  const auto* v = args.v.as<const T>();
  auto* w = args.w.as<T>();
  launch(current_stream(), blocks_for(args.v.dim(0), 1), kThreads, 0,
         forward_kernel<T>, v, args.g.as<const T>(), w, args.norm.as<float>(),
         width, packs_aligned(v, width) && packs_aligned(w));
}

template <typename T>
void weight_norm_backward_of(const WeightNormBackward::Args& args) {
  const std::int64_t width = args.v.dim(1);
  const auto* dw = args.dw.as<const T>();
  const auto* v = args.v.as<const T>();
  auto* dv = args.dv.as<T>();
  launch(current_stream(), blocks_for(args.v.dim(0), 1), kThreads, 0,
         backward_kernel<T>, dw, v, args.g.as<const T>(),
         args.norm.as<const float>(), dv, args.dg.as<T>(), width,
         packs_aligned(dw, width) && packs_aligned(v) && packs_aligned(dv));
}

}  // namespace

EA_RUN_CUDA(WeightNormForward, weight_norm_forward_of, v)
EA_RUN_CUDA(WeightNormBackward, weight_norm_backward_of, v)

}  // namespace ea::cuda
