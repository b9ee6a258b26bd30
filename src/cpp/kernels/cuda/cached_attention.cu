// Attention over cached rows: one warp per head of each sequence.
#include "kernels/cached_attention.h"

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/evolve_numbers.h"
#include "kernels/cuda/run.h"
#include "kernels/cuda/scratch.h"

namespace ea::cuda {

namespace {

// Parameters of the evolving step; a pointer is null if its part is absent.
template <typename T>
struct CachedMapParams {
  const T *previous, *weight, *bias;
  const std::int64_t* map_rows;
  T *maps, *carry;
  std::int64_t room, side, right;
  EvolveNumbers c;
  float softmax_scale;
};

template <typename T>
struct CachedParams {
  const T *q, *k, *v;
  const std::int64_t *rows, *offsets;
  T* y;
  float* logits;  // flat maps
  std::int64_t heads, width, d;
  float scale;
  CachedMapParams<T> e;

  // Returns cell 0 of a row of I.
  __device__ T* map(std::int64_t row, std::int64_t h) const {
    return e.maps + (row * heads + h) * e.room + e.side - 1;
  }
};

// One head of one sequence.
struct CachedPlace {
  std::int64_t b, h, first, n, cell;

  template <typename T>
  __device__ explicit CachedPlace(const CachedParams<T>& c)
      : b(blockIdx.x / c.heads),
        h(blockIdx.x % c.heads),
        first(c.offsets[b]),
        n(c.offsets[b + 1] - first),
        cell(c.heads * first + h * n) {}
};

// Computes L without the convolution, and the row of I.
template <typename T>
__global__ void __launch_bounds__(kWarp) score_kernel(CachedParams<T> c) {
  const CachedPlace at(c);
  const int lane = static_cast<int>(threadIdx.x);
  const T* q = c.q + at.b * c.width + at.h * c.d;
  T* mixed = nullptr;
  if (c.e.weight != nullptr) {
    const std::int64_t pad = c.e.side - 1;
    mixed = c.map(c.e.map_rows[at.b * c.e.side + pad], at.h);
    for (std::int64_t i = lane; i < pad; i += kWarp) mixed[-1 - i] = T(0.0f);
    for (std::int64_t i = lane; i < 2 * pad; i += kWarp) {
      mixed[at.n + i] = T(0.0f);
    }
  }
  for (std::int64_t t = lane; t < at.n; t += kWarp) {
    const T* k = c.k + c.rows[at.first + t] * c.width + at.h * c.d;
    float s = 0.0f;
    for (std::int64_t i = 0; i < c.d; ++i) {
      s += static_cast<float>(q[i]) * static_cast<float>(k[i]);
    }
    s *= c.scale;
    const float m = c.e.previous == nullptr
                        ? 0.0f
                        : static_cast<float>(c.e.previous[at.cell + t]);
    if (mixed != nullptr) mixed[t] = T(c.e.c.a * m + c.e.c.b * s);
    c.logits[at.cell + t] = c.e.c.p * m + c.e.c.s * s;
  }
}

// Returns Z of cell t.
template <typename T>
__device__ float convolved(const CachedParams<T>& c, const CachedPlace& at,
                           std::int64_t t) {
  const std::int64_t side = c.e.side, reach = (side - 1) / 2;
  float z = static_cast<float>(c.e.bias[at.h]);
  for (std::int64_t from = 0; from < c.heads; ++from) {
    const T* w = c.e.weight + (at.h * c.heads + from) * side * side;
    for (std::int64_t u = 0; u < side; ++u) {
      const std::int64_t row = c.e.map_rows[at.b * side + u];
      if (row < 0) continue;
      const T* x = c.map(row, from) + t - c.e.right - reach;
      for (std::int64_t v = 0; v < side; ++v) {
        // Skips taps of 0: their cells may be masked.
        const float tap = static_cast<float>(w[u * side + v]);
        if (tap != 0.0f) z += tap * static_cast<float>(x[v]);
      }
    }
  }
  return z;
}

template <typename T>
__global__ void __launch_bounds__(kWarp) finish_kernel(CachedParams<T> c) {
  const CachedPlace at(c);
  const int lane = static_cast<int>(threadIdx.x);
  float* p = c.logits + at.cell;
  const bool opens = c.e.weight != nullptr &&
                     c.e.map_rows[at.b * c.e.side + (c.e.side - 1) / 2] >= 0;
  float largest = -INFINITY;
  for (std::int64_t t = lane; t < at.n; t += kWarp) {
    float l = p[t];
    if (opens && t >= c.e.right) {
      const float z = convolved(c, at, t);
      l += c.e.c.w * (z <= 0.0f ? 0.0f : z);
    }
    if (c.e.carry != nullptr) c.e.carry[at.cell + t] = T(l);
    p[t] = c.e.softmax_scale * l;
    largest = fmaxf(largest, p[t]);
  }
  largest = warp_reduce(largest, Largest{});
  // A NaN or +inf makes one term NaN, hence the sum and the whole row.
  float total = 0.0f;
  for (std::int64_t t = lane; t < at.n; t += kWarp) {
    p[t] = expf(p[t] - largest);
    total += p[t];
  }
  const float inverse = 1.0f / warp_reduce(total);
  for (std::int64_t t = lane; t < at.n; t += kWarp) {
    p[t] = static_cast<float>(T(p[t] * inverse));
  }
  __syncthreads();  // the lanes read each other's p
  for (std::int64_t i = lane; i < c.d; i += kWarp) {
    const std::int64_t column = at.h * c.d + i;
    float sum = 0.0f;
    for (std::int64_t t = 0; t < at.n; ++t) {
      sum += p[t] *
             static_cast<float>(c.v[c.rows[at.first + t] * c.width + column]);
    }
    c.y[at.b * c.width + column] = T(sum);
  }
}

template <typename T>
CachedMapParams<T> map_params(const CachedMaps& e) {
  return {e.previous.as<T>(),
          e.weight.as<T>(),
          e.bias.as<T>(),
          e.map_rows.as<std::int64_t>(),
          e.maps.as<T>(),
          e.carry.as<T>(),
          e.maps.defined() ? e.maps.dim(2) : 0,
          2 * e.shift.down + 1,
          e.shift.right,
          e.c,
          static_cast<float>(e.softmax_scale)};
}

}  // namespace

template <>
void run<CachedAttention>(const CachedAttention::Args& args) {
  const std::int64_t jobs = args.q.dim(0) * args.heads;
  if (jobs == 0 || args.q.dim(1) == 0) return;
  const Scratch<float> logits(current_stream(), args.heads * args.rows.numel());
  visit_narrow(args.q.dtype, CachedAttention::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const CachedParams<T> c{args.q.as<T>(),
                            args.k.as<T>(),
                            args.v.as<T>(),
                            args.rows.as<std::int64_t>(),
                            args.offsets.as<std::int64_t>(),
                            args.y.as<T>(),
                            logits.data(),
                            args.heads,
                            args.q.dim(1),
                            args.q.dim(1) / args.heads,
                            static_cast<float>(args.scale),
                            map_params<T>(args.evolving)};
    const auto blocks = blocks_for(jobs, 1);
    launch(current_stream(), blocks, kWarp, 0, score_kernel<T>, c);
    // Separate launch: the convolution reads the rows of all heads.
    launch(current_stream(), blocks, kWarp, 0, finish_kernel<T>, c);
  });
}

}  // namespace ea::cuda
