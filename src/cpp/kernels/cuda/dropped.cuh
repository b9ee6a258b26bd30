// Dropout inside other kernels: the random bits of kernels/dropout.h.
#pragma once

#include "kernels/cuda/vec.cuh"
#include "runtime/philox.h"

namespace ea::cuda {

// Selects the elements that dropout keeps, and the factor for those.
struct DropBits {
  std::uint64_t seed, stream;
  std::uint32_t threshold;
  float scale;

  DropBits(double p, std::uint64_t seed_, std::uint64_t stream_)
      : seed(seed_),
        stream(stream_),
        threshold(p > 0.0 ? dropout_threshold(p) : 0u),
        scale(p > 0.0 ? static_cast<float>(1.0 / (1.0 - p)) : 0.0f) {}
  EA_HOST_DEVICE bool on() const { return scale > 0.0f; }
  EA_HOST_DEVICE float factor() const { return on() ? scale : 1.0f; }

  // Returns a bit for each element of a group that is kept; the four adjacent
  // elements of a group share one counter.
  __device__ std::uint32_t kept(std::int64_t group) const {
    const Philox4 words =
        philox(seed, stream, static_cast<std::uint64_t>(group));
    std::uint32_t bits = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      bits |= (words.v[k] >= threshold ? 1u : 0u) << k;
    }
    return bits;
  }
  // Returns the bits of elements first .. first + 4.
  __device__ std::uint32_t kept_from(std::int64_t first) const {
    const int skip = static_cast<int>(first & 3);
    std::uint32_t bits = kept(first >> 2);
    if (skip != 0) bits |= kept((first >> 2) + 1) << 4;
    return bits >> skip & 0xfu;
  }
};

// Applies dropout to elements first .. first + kPack of a tensor, rounded as
// stored in T.
template <typename T>
__device__ inline void drop_pack(const DropBits& drop, std::int64_t first,
                                 float (&v)[kPack<T>]) {
#pragma unroll
  for (int k = 0; k < kPack<T>; k += 4) {
    const std::uint32_t bits = drop.kept_from(first + k);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& one = v[k + i];
      one = (bits >> i & 1u) != 0 ? stored<T>(one * drop.scale) : 0.0f;
    }
  }
}

}  // namespace ea::cuda
