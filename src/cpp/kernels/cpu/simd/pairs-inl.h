// What is multiplied, in cells of 32 bits: a float (Floats), or two bfloat16,
// the first in the lower half, whose products are added up together (Pairs).
#pragma once

#include "kernels/cpu/simd/vec-inl.h"
#include "runtime/cpu_info.h"
#include "runtime/fast_paths.h"

namespace ea::simd::EA_TARGET {
namespace {

// A cell, wherever it lies: pairs of bfloat16 may begin at any of them.
EA_INLINE float cell_at(const float* p) {
  float cell;
  __builtin_memcpy(&cell, p, sizeof(cell));
  return cell;
}

// Map: of what maps consist whose products are added up; kValues of them are a
// cell, `load` takes kLanes cells or the part of them.
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
// Where the processor has AVX512-BF16. The instruction by name: the sources are
// compiled for processors without it, and an intrinsic would ask for a function
// that is compiled for those with it, which takes none of ours inline.
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

// Whether the processor adds up products of bfloat16 itself.
EA_INLINE bool takes_pairs() {
  return has_avx512_bf16() && enabled(FastPath::bfloat16_pairs);
}

// Whether rows of this width and stride are whole cells as they lie.
EA_INLINE bool in_pairs(std::int64_t stride, std::int64_t width) {
  return stride % 2 == 0 && width % 2 == 0;
}

// Copies a row of n values into whole cells: an odd one gets a zero behind it.
EA_INLINE void copy_cells(const bfloat16* from, std::int64_t n, float* to) {
  if (n % 2 != 0) to[n / 2] = 0.0f;
  __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(bfloat16));
}

// Two bfloat16, widened to floats, as the cells of a pair.
EA_INLINE Vf pair_of(Vf first, Vf second) {
  typedef std::uint32_t Vu __attribute__((vector_size(sizeof(Vf))));
  return (Vf)((Vu)second | (Vu)first >> 16);
}
// The same of floats that are first rounded to nearest even. Numbers too small
// for a normal one become 0, as they do in a product.
EA_INLINE Vf rounded_pair(Vf first, Vf second) {
  typedef std::uint16_t Vh __attribute__((vector_size(sizeof(Vf))));
  Vh halves;  // all of the first, then all of the second
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves) : "v"(second), "v"(first));
  return (Vf)__builtin_shuffle(
      halves, Vh{0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31});
}
#endif

// Stores what products will read: bfloat16 as rounded_pair() rounds them.
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
