// Dropout of a pack on the way: the bits of kernels/dropout.h.
#pragma once

#include "kernels/cuda/vec.cuh"
#include "runtime/philox.h"

namespace ea::cuda {

// Which elements stay, and the factor of those that do.
struct DropBits {
  std::uint64_t seed, first_stream;
  const std::uint64_t* shift;  // of the stream, or null
  std::uint32_t threshold;
  float scale;

  // Of the arguments of a kernel that drops.
  template <typename Args>
  explicit DropBits(const Args& args)
      : seed(args.seed),
        first_stream(args.stream),
        shift(args.shift.template as<const std::uint64_t>()),
        threshold(args.p > 0.0 ? dropout_threshold(args.p) : 0u),
        scale(args.p > 0.0 ? static_cast<float>(1.0 / (1.0 - args.p)) : 0.0f) {}
  EA_HOST_DEVICE bool on() const { return scale > 0.0f; }
  __device__ std::uint64_t stream() const {
    return shift != nullptr ? first_stream + *shift : first_stream;
  }
  // With the shift read already, for kernels whose loops have no register left
  // for it.
  __device__ DropBits shifted() const {
    DropBits out = *this;
    out.first_stream = stream();
    out.shift = nullptr;
    return out;
  }
};

// Elements first .. first + kPack of a tensor, as dropout leaves and stores
// them in T. Four neighbours share one counter.
template <typename T>
__device__ inline void drop_pack(const DropBits& drop, std::int64_t first,
                                 float (&v)[kPack<T>]) {
  const std::uint64_t stream = drop.stream();
  Philox4 words =
      philox(drop.seed, stream, static_cast<std::uint64_t>(first) / 4);
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k) {
    const int word = static_cast<int>((first + k) % 4);
    if (k > 0 && word == 0) {
      words =
          philox(drop.seed, stream, static_cast<std::uint64_t>(first + k) / 4);
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
