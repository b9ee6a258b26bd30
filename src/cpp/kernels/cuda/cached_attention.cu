// Attention over cached rows: a warp for each head of each sequence.
#include "kernels/cached_attention.h"

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/scratch.h"

namespace ea::cuda {

namespace {

template <typename T>
struct CachedParams {
  const T *q, *k, *v;
  const std::int64_t *rows, *offsets;
  T* y;
  float* p;  // [heads, total rows]
  std::int64_t heads, width, d, total;
  float scale;
};

template <typename T>
__global__ void __launch_bounds__(kWarp) cached_kernel(CachedParams<T> c) {
  const std::int64_t b = blockIdx.x / c.heads, h = blockIdx.x % c.heads;
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t first = c.offsets[b], n = c.offsets[b + 1] - first;
  const std::int64_t* rows = c.rows + first;
  const T* q = c.q + b * c.width + h * c.d;
  float* p = c.p + h * c.total + first;
  float largest = -INFINITY;
  for (std::int64_t t = lane; t < n; t += kWarp) {
    const T* k = c.k + rows[t] * c.width + h * c.d;
    float dot = 0.0f;
    for (std::int64_t i = 0; i < c.d; ++i) {
      dot += static_cast<float>(q[i]) * static_cast<float>(k[i]);
    }
    p[t] = c.scale * dot;
    largest = fmaxf(largest, p[t]);
  }
  largest = warp_reduce(largest, Largest{});
  // A NaN or +inf makes one term, hence the sum and the whole row, NaN.
  float total = 0.0f;
  for (std::int64_t t = lane; t < n; t += kWarp) {
    p[t] = expf(p[t] - largest);
    total += p[t];
  }
  const float inverse = 1.0f / warp_reduce(total);
  for (std::int64_t t = lane; t < n; t += kWarp) {
    p[t] = static_cast<float>(T(p[t] * inverse));
  }
  __syncthreads();  // the lanes read one another's p
  for (std::int64_t i = lane; i < c.d; i += kWarp) {
    float sum = 0.0f;
    for (std::int64_t t = 0; t < n; ++t) {
      sum += p[t] * static_cast<float>(c.v[rows[t] * c.width + h * c.d + i]);
    }
    c.y[b * c.width + h * c.d + i] = T(sum);
  }
}

}  // namespace

template <>
void run<CachedAttention>(const CachedAttention::Args& args) {
  const std::int64_t jobs = args.q.dim(0) * args.heads;
  if (jobs == 0 || args.q.dim(1) == 0) return;
  const std::int64_t total = args.rows.numel();
  const Scratch<float> p(current_stream(), args.heads * total);
  visit_narrow(args.q.dtype, CachedAttention::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const CachedParams<T> c{args.q.as<T>(),
                            args.k.as<T>(),
                            args.v.as<T>(),
                            args.rows.as<std::int64_t>(),
                            args.offsets.as<std::int64_t>(),
                            args.y.as<T>(),
                            p.data(),
                            args.heads,
                            args.q.dim(1),
                            args.q.dim(1) / args.heads,
                            total,
                            static_cast<float>(args.scale)};
    launch(current_stream(), blocks_for(jobs, 1), kWarp, 0, cached_kernel<T>,
           c);
  });
}

}  // namespace ea::cuda
