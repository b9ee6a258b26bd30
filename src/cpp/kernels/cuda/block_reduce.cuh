// Sums and maxima over a warp and a block, reduced in a fixed order.
#pragma once

#include "kernels/cuda/launch.h"

namespace ea::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Plus {
  template <typename A>
  __device__ A operator()(A a, A b) const {
    return a + b;
  }
};

// Ignores NaN, as fmaxf does.
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Butterfly reduction: every lane gets the same bits, since a + b = b + a. All
// 32 lanes must take part.
template <typename A, typename Op = Plus>
__device__ inline A warp_reduce(A value, Op op = {}) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// All threads of a block (x axis, whole warps) must take part and get the
// result. `partial`: kWarp elements of shared memory, reusable when the call
// returns.
template <typename A, typename Op = Plus>
__device__ inline A block_reduce(A value, A* partial, A identity, Op op = {}) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = warp_reduce(value, op);
  if (warps == 1) return value;
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = warp_reduce(lane < warps ? partial[lane] : identity, op);
  __syncthreads();
  return value;
}

template <typename A>
__device__ inline A block_sum(A value, A* partial) {
  return block_reduce(value, partial, A(0));
}

__device__ inline float block_max(float value, float* partial) {
  return block_reduce(value, partial, -INFINITY, Largest{});
}

}  // namespace ea::cuda
