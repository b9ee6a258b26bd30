// Dropout: the mask is recomputed wherever it is needed, never stored.
#include "kernels/cuda/dropped.cuh"
#include "kernels/cuda/run.h"
#include "kernels/dropout.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(const T* x, T* y, std::int64_t n, DropBits drop,
                   bool aligned) {
  const std::int64_t i =
      (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack<T>;
  if (i >= n) return;
  float v[kPack<T>];
  load_pack(x + i, n - i, aligned, v);
  if (drop.on()) drop_pack<T>(drop, i, v);
  store_pack(y + i, n - i, aligned, v);
}

template <typename T>
void dropout_of(const Dropout::Args& args) {
  const std::int64_t n = args.x.numel();
  const T* x = args.x.as<T>();
  T* y = args.y.as<T>();
  launch(current_stream(), blocks_for(n, kThreads * kPack<T>), kThreads, 0,
         dropout_kernel<T>, x, y, n, DropBits(args.p, args.seed, args.stream),
         packs_aligned(x) && packs_aligned(y));
}

}  // namespace

EA_RUN_CUDA(Dropout, dropout_of, x)

}  // namespace ea::cuda
