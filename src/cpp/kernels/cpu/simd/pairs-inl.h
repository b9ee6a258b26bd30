// Operands of products, in cells of 32 bits: a float (Floats), or two bfloat16,
// the first in the lower half, whose products are accumulated together (Pairs).
#pragma once

#include "kernels/cpu/simd/vec-inl.h"
#include "runtime/cpu_info.h"
#include "runtime/fast_paths.h"

namespace ea::simd::EA_TARGET {
namespace {

// Loads an unaligned cell: a pair may begin at any bfloat16.
EA_INLINE float cell_at(const float* p) {
  float cell;
  __builtin_memcpy(&cell, p, sizeof(cell));
  return cell;
}

// Cells of one float. Map is the element type of maps that are multiplied, and
// kValues of its elements make a cell. load() reads kLanes cells or a part of
// them.
struct Floats {
  using Map = float;
  using Rest = Part;
  static constexpr int kValues = 1;
  EA_INLINE static Vf add(Vf sum, Vf a, Vf b) { return fma(a, b, sum); }
  template <typename P>
  EA_INLINE static Vf load(const float* p, P part) {
    return simd::EA_TARGET::load(p, part);
  }
};

#if defined(__AVX512F__)
// Cells of two bfloat16, for processors with AVX512-BF16. The instruction is
// given by name: the sources are compiled for processors without it, and an
// intrinsic would need a function compiled for those with it, into which none
// of ours could be inlined.
struct Pairs {
  using Map = bfloat16;
  using Rest = Halves;
  static constexpr int kValues = 2;
  EA_INLINE static Vf add(Vf sum, Vf a, Vf b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
  template <typename P>
  EA_INLINE static Vf load(const bfloat16* p, P part) {
    return load_halves(p, part);
  }
};

// Returns whether the processor accumulates products of bfloat16 itself.
EA_INLINE bool takes_pairs() {
  return has_avx512_bf16() && enabled(FastPath::bfloat16_pairs);
}

// Returns whether rows of this width and stride are whole cells in place.
EA_INLINE bool in_pairs(std::int64_t stride, std::int64_t width) {
  return stride % 2 == 0 && width % 2 == 0;
}

// Copies a row of n values into whole cells; an odd n is padded with a zero.
EA_INLINE void copy_cells(const bfloat16* from, std::int64_t n, float* to) {
  if (n % 2 != 0) to[n / 2] = 0.0f;
  __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(bfloat16));
}

// Returns the pairs of two bfloat16 vectors that were widened to floats.
EA_INLINE Vf pair_of(Vf first, Vf second) {
  typedef std::uint32_t Vu __attribute__((vector_size(sizeof(Vf))));
  return (Vf)((Vu)second | (Vu)first >> 16);
}
// Returns the pairs of two float vectors, rounded to nearest even. Subnormal
// numbers become 0, as they do in a product.
EA_INLINE Vf rounded_pair(Vf first, Vf second) {
  typedef std::uint16_t Vh __attribute__((vector_size(sizeof(Vf))));
  Vh halves;  // all of the first, then all of the second
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves) : "v"(second), "v"(first));
  return (Vf)__builtin_shuffle(
      halves, Vh{0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31});
}
#endif

// Stores operands of products; bfloat16 is rounded as by rounded_pair().
template <typename P>
EA_INLINE void store_factor(float* p, Vf v, P part) {
  store(p, v, part);
}
#if defined(__AVX512F__)
EA_INLINE __m256i rounded_halves(Vf v) {
  __m256i halves;
  asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(v));
  return halves;
}
EA_INLINE void store_factor(bfloat16* p, Vf v, Full) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded_halves(v));
}
EA_INLINE void store_factor(bfloat16* p, Vf v, Part part) {
  _mm256_mask_storeu_epi16(p, part.mask, rounded_halves(v));
}
#endif

}  // namespace
}  // namespace ea::simd::EA_TARGET
