// Vectors of 16 floats: the primitives of vec-inl.h for x86-64-v4 (AVX-512).
#pragma once

// GCC 12 blames callers for the "undefined" registers inside its own intrinsics
// (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "runtime/bfloat16.h"

namespace ea::simd::EA_TARGET {
namespace {

constexpr int kLanes = 16;
typedef float Vf __attribute__((vector_size(64)));
typedef double Vd __attribute__((vector_size(64)));  // kLanes / 2 doubles
typedef std::int32_t Vi __attribute__((vector_size(64)));
typedef std::uint64_t Vq __attribute__((vector_size(64)));

// The first n lanes, 0 <= n <= kLanes.
struct Part {
  __mmask16 mask;
  explicit EA_INLINE Part(std::int64_t n)
      : mask(static_cast<__mmask16>((1u << n) - 1u)) {}
};

EA_INLINE Vf set(float x) { return _mm512_set1_ps(x); }
EA_INLINE Vi set_int(std::int32_t x) { return (Vi)_mm512_set1_epi32(x); }
EA_INLINE Vf load(const float* p, Full) { return _mm512_loadu_ps(p); }
EA_INLINE Vf load(const float* p, Part part) {
  return _mm512_maskz_loadu_ps(part.mask, p);
}
EA_INLINE void store(float* p, Vf v, Full) { _mm512_storeu_ps(p, v); }
EA_INLINE void store(float* p, Vf v, Part part) {
  _mm512_mask_storeu_ps(p, part.mask, v);
}

// Returns v in the lanes of the part, `other` in the rest.
EA_INLINE Vf only(Vf v, Full, Vf) { return v; }
EA_INLINE Vf only(Vf v, Part part, Vf other) {
  return _mm512_mask_mov_ps(other, part.mask, v);
}

EA_INLINE Vf widen(__m256i halves) {
  return (Vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
}
EA_INLINE Vf load(const bfloat16* p, Full) {
  return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
EA_INLINE Vf load(const bfloat16* p, Part part) {
  return widen(_mm256_maskz_loadu_epi16(part.mask, p));
}
EA_INLINE __m256i narrow(Vf v) {
  return _mm512_cvtepi32_epi16((__m512i)bfloat16_bits(v));
}
EA_INLINE void store(bfloat16* p, Vf v, Full) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow(v));
}
EA_INLINE void store(bfloat16* p, Vf v, Part part) {
  _mm256_mask_storeu_epi16(p, part.mask, narrow(v));
}

// The first n of 2 kLanes bfloat16, 0 <= n <= 2 kLanes, two per lane.
// load_halves() sets the others to zero.
struct Halves {
  __mmask32 mask;
  explicit EA_INLINE Halves(std::int64_t n)
      : mask(static_cast<__mmask32>((std::uint64_t{1} << n) - 1u)) {}
};
EA_INLINE Vf load_halves(const bfloat16* p, Full) {
  return (Vf)_mm512_loadu_si512(p);
}
EA_INLINE Vf load_halves(const bfloat16* p, Halves part) {
  return (Vf)_mm512_maskz_loadu_epi16(part.mask, p);
}

// Loads a mask: -1 in lanes whose byte is not zero, else 0.
EA_INLINE Vi load_mask(const std::uint8_t* p, Full) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return (Vi)_mm512_cvtepi8_epi32(bytes) != 0;
}
EA_INLINE Vi load_mask(const std::uint8_t* p, Part part) {
  return (Vi)_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(part.mask, p)) != 0;
}

// Convert lanes of 0 or -1 to bits, bit i for lane i, and back.
EA_INLINE std::uint32_t to_bits(Vi lanes) {
  return _mm512_movepi32_mask((__m512i)lanes);
}
EA_INLINE Vi from_bits(std::uint32_t bits) {
  return (Vi)_mm512_movm_epi32(static_cast<__mmask16>(bits));
}

// a b + c, -(a b) + c, rounded once.
EA_INLINE Vf fma(Vf a, Vf b, Vf c) { return _mm512_fmadd_ps(a, b, c); }
EA_INLINE Vf fnma(Vf a, Vf b, Vf c) { return _mm512_fnmadd_ps(a, b, c); }
EA_INLINE Vd fma(Vd a, Vd b, Vd c) { return _mm512_fmadd_pd(a, b, c); }
// a > b ? a : b and a < b ? a : b: b where either is NaN.
EA_INLINE Vf max(Vf a, Vf b) { return _mm512_max_ps(a, b); }
EA_INLINE Vf min(Vf a, Vf b) { return _mm512_min_ps(a, b); }
EA_INLINE Vf sqrt(Vf v) { return _mm512_sqrt_ps(v); }
EA_INLINE Vf round(Vf v) { return _mm512_roundscale_ps(v, 0x08); }
EA_INLINE Vi to_int(Vf v) { return (Vi)_mm512_cvtps_epi32(v); }
EA_INLINE Vf to_float(Vi v) { return _mm512_cvtepi32_ps((__m512i)v); }
// Returns v 2^n for integral n, also correct if the result is subnormal.
EA_INLINE Vf scale_by_power(Vf v, Vf n) { return _mm512_scalef_ps(v, n); }

// Products of the lower 32 bits of each lane.
EA_INLINE Vq multiply_low(Vq a, Vq b) {
  return (Vq)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
// a0 b0 a2 b2 .. and a1 b1 a3 b3 ..: pairs of even and of odd lanes.
EA_INLINE Vq interleave_low(Vq a, Vq b) {
  return (Vq)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b);
}
EA_INLINE Vq interleave_high(Vq a, Vq b) {
  return (Vq)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b);
}
// Returns the order of counters that interleave_low() and interleave_high()
// turn into memory order.
EA_INLINE Vq counter_order() { return Vq{0, 4, 1, 5, 2, 6, 3, 7}; }

EA_INLINE Vd low_double(Vf v) {
  return _mm512_cvtps_pd(_mm512_castps512_ps256(v));
}
EA_INLINE Vd high_double(Vf v) {
  return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
}

EA_INLINE float reduce_add(Vf v) {
  const __m256 a =
      _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 b =
      _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
EA_INLINE float reduce_max(Vf v) {
  const __m256 a =
      _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 b =
      _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
EA_INLINE double reduce_add(Vd v) {
  const __m256d a =
      _mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1));
  const __m128d b =
      _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
  return _mm_cvtsd_f64(_mm_add_sd(b, _mm_unpackhi_pd(b, b)));
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
