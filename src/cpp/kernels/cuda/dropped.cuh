// Dropout of a pack on the way: the bits of kernels/dropout.h.
#pragma once

#include "kernels/cuda/vec.cuh"
#include "runtime/philox.h"

namespace ea::cuda {

// Which elements stay, and the factor of those that do.
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
};

// Elements first .. first + kPack of a tensor, as dropout leaves and stores
// them in T. Four neighbours share one counter.
template <typename T>
__device__ inline void drop_pack(const DropBits& drop, std::int64_t first,
                                 float (&v)[kPack<T>]) {
  Philox4 words =
      philox(drop.seed, drop.stream, static_cast<std::uint64_t>(first) / 4);
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k) {
    const int word = static_cast<int>((first + k) % 4);
    if (k > 0 && word == 0) {
      words = philox(drop.seed, drop.stream,
                     static_cast<std::uint64_t>(first + k) / 4);
    }
    // Indexed by a constant, so that the words stay in registers.
    const std::uint32_t bits = word == 0   ? words.v[0]
                               : word == 1 ? words.v[1]
                               : word == 2 ? words.v[2]
                                           : words.v[3];
    v[k] = bits >= drop.threshold ? stored<T>(v[k] * drop.scale) : 0.0f;
  }
}

}  // namespace ea::cuda
