// Floats as sums of bfloat16, for products of floats on tensor cores.
#pragma once

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/vec.cuh"

namespace ea::cuda {

// A bfloat16 has 8 bits of mantissa, so rounding to it leaves an error of at
// most 2^-8 of a float. A second part, the rounded remainder of the first,
// leaves at most 2^-16. The error of a product with a bfloat16 is then at most
// 2^-16 sum |a b|, which is 2^-8 of the rounding of the result to bfloat16 if
// terms do not cancel. A product of two floats takes three products of parts;
// the omitted fourth is below 2^-16 too, so the error is at most 3 2^-16 sum |a
// b|. One part would have the same effect on maps as storing them in bfloat16,
// which shows where terms cancel. An infinity becomes NaN.
inline constexpr int kFloatParts = 2;

// Number of parts for element type E.
template <typename E>
inline constexpr int kParts = sizeof(E) == sizeof(bfloat16) ? 1 : kFloatParts;

// Returns whether a product needs this pair of parts.
__host__ __device__ constexpr bool parts_meet(int p, int q) {
  return p + q < kFloatParts;
}

// Sets parts[p]: lower half from part p of `low`, upper half from `high`.
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
