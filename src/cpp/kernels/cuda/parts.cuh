// Floats as sums of bfloat16, for products of floats by tensor cores.
#pragma once

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/vec.cuh"

namespace ea::cuda {

// A bfloat16 has 8 bits of mantissa, so rounding to it leaves at most 2^-8 of a
// float, and two of them, the second of what the first left, at most 2^-16: the
// error of a product with a bfloat16 is at most 2^-16 sum |a b|, which is 2^-8
// of a result's own rounding to bfloat16 where terms do not cancel. A product
// of two floats takes three products of parts, the last being below 2^-16 too:
// at most 3 2^-16 sum |a b|. One part would do to maps what storing them does,
// and terms that cancel would show it. An infinity becomes NaN.
inline constexpr int kFloatParts = 2;

// As many parts as element type E needs.
template <typename E>
inline constexpr int kParts = sizeof(E) == sizeof(bfloat16) ? 1 : kFloatParts;

// True for the pairs of parts that a product needs.
__host__ __device__ constexpr bool parts_meet(int p, int q) {
  return p + q < kFloatParts;
}

// parts[p]: part p of `low` in the lower half, of `high` in the upper.
template <int kCount>
__device__ inline void split_pair(float low, float high,
                                  std::uint32_t (&parts)[kCount]) {
#pragma unroll
  for (int p = 0; p < kCount; ++p) {
    parts[p] = bf16_pair(low, high);
    low -= float_of_bits(parts[p] << 16);
    high -= float_of_bits(parts[p] & 0xffff0000u);
  }
}

}  // namespace ea::cuda
