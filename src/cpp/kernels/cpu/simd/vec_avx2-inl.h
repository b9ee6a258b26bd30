// Vectors of 8 floats: the primitives of vec-inl.h for x86-64-v3 (AVX2 and
// FMA).
#pragma once

#include <immintrin.h>

#include "runtime/bfloat16.h"

namespace ea::simd::EA_TARGET {
namespace {

constexpr int kLanes = 8;
typedef float Vf __attribute__((vector_size(32)));
typedef double Vd __attribute__((vector_size(32)));  // kLanes / 2 doubles
typedef std::int32_t Vi __attribute__((vector_size(32)));
typedef std::uint64_t Vq __attribute__((vector_size(32)));

// The first n lanes, 0 <= n <= kLanes.
struct Part {
  Vi mask;
  std::int64_t n;
  explicit EA_INLINE Part(std::int64_t count)
      : mask((Vi)_mm256_set1_epi32(static_cast<int>(count)) >
             Vi{0, 1, 2, 3, 4, 5, 6, 7}),
        n(count) {}
};

EA_INLINE Vf set(float x) { return _mm256_set1_ps(x); }
EA_INLINE Vi set_int(std::int32_t x) { return (Vi)_mm256_set1_epi32(x); }
EA_INLINE Vf load(const float* p, Full) { return _mm256_loadu_ps(p); }
EA_INLINE Vf load(const float* p, Part part) {
  return _mm256_maskload_ps(p, (__m256i)part.mask);
}
EA_INLINE void store(float* p, Vf v, Full) { _mm256_storeu_ps(p, v); }
EA_INLINE void store(float* p, Vf v, Part part) {
  _mm256_maskstore_ps(p, (__m256i)part.mask, v);
}

// Returns v in the lanes of the part, `other` in the rest.
EA_INLINE Vf only(Vf v, Full, Vf) { return v; }
EA_INLINE Vf only(Vf v, Part part, Vf other) { return part.mask ? v : other; }

EA_INLINE Vf widen(__m128i halves) {
  return (Vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
}
EA_INLINE Vf load(const bfloat16* p, Full) {
  return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
EA_INLINE Vf load(const bfloat16* p, Part part) {
  std::uint16_t halves[kLanes] = {};
  for (std::int64_t i = 0; i < part.n; ++i) halves[i] = p[i].bits;
  return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
}
EA_INLINE __m128i narrow(Vf v) {
  const __m256i bits = (__m256i)bfloat16_bits(v);
  const __m256i packed = _mm256_packus_epi32(bits, bits);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
EA_INLINE void store(bfloat16* p, Vf v, Full) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow(v));
}
EA_INLINE void store(bfloat16* p, Vf v, Part part) {
  std::uint16_t halves[kLanes];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(halves), narrow(v));
  for (std::int64_t i = 0; i < part.n; ++i) p[i].bits = halves[i];
}

// Loads a mask: -1 in lanes whose byte is not zero, else 0.
EA_INLINE Vi load_mask(const std::uint8_t* p, Full) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return (Vi)_mm256_cvtepi8_epi32(bytes) != 0;
}
EA_INLINE Vi load_mask(const std::uint8_t* p, Part part) {
  std::uint8_t bytes[kLanes] = {};
  for (std::int64_t i = 0; i < part.n; ++i) bytes[i] = p[i];
  return load_mask(bytes, Full{});
}

// Convert lanes of 0 or -1 to bits, bit i for lane i, and back.
EA_INLINE std::uint32_t to_bits(Vi lanes) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps((__m256)lanes));
}
EA_INLINE Vi from_bits(std::uint32_t bits) {
  const Vi each = {1, 2, 4, 8, 16, 32, 64, 128};
  return (set_int(static_cast<std::int32_t>(bits)) & each) != 0;
}

// a b + c, -(a b) + c, rounded once.
EA_INLINE Vf fma(Vf a, Vf b, Vf c) { return _mm256_fmadd_ps(a, b, c); }
EA_INLINE Vf fnma(Vf a, Vf b, Vf c) { return _mm256_fnmadd_ps(a, b, c); }
EA_INLINE Vd fma(Vd a, Vd b, Vd c) { return _mm256_fmadd_pd(a, b, c); }
// a > b ? a : b and a < b ? a : b: b where either is NaN.
EA_INLINE Vf max(Vf a, Vf b) { return _mm256_max_ps(a, b); }
EA_INLINE Vf min(Vf a, Vf b) { return _mm256_min_ps(a, b); }
EA_INLINE Vf sqrt(Vf v) { return _mm256_sqrt_ps(v); }
EA_INLINE Vf round(Vf v) { return _mm256_round_ps(v, 0x08); }
EA_INLINE Vi to_int(Vf v) { return (Vi)_mm256_cvtps_epi32(v); }
EA_INLINE Vf to_float(Vi v) { return _mm256_cvtepi32_ps((__m256i)v); }
// Returns v 2^n for integral |n| <= 252, also correct if the result is
// subnormal. Takes two factors, because 2^n alone may not be a normal number.
EA_INLINE Vf scale_by_power(Vf v, Vf n) {
  const Vi whole = to_int(n);
  const Vi half = whole >> 1;
  const Vf first = (Vf)((half + 127) << 23);
  const Vf second = (Vf)((whole - half + 127) << 23);
  return v * first * second;
}

// Products of the lower 32 bits of each lane.
EA_INLINE Vq multiply_low(Vq a, Vq b) {
  return (Vq)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
// a0 b0 a2 b2 .. and a1 b1 a3 b3 ..: pairs of even and of odd lanes.
EA_INLINE Vq interleave_low(Vq a, Vq b) {
  return (Vq)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b);
}
EA_INLINE Vq interleave_high(Vq a, Vq b) {
  return (Vq)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b);
}
// Returns the order of counters that interleave_low() and interleave_high()
// turn into memory order.
EA_INLINE Vq counter_order() { return Vq{0, 2, 1, 3}; }

EA_INLINE Vd low_double(Vf v) {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
}
EA_INLINE Vd high_double(Vf v) {
  return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}

EA_INLINE float reduce_add(Vf v) {
  const __m128 b =
      _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
EA_INLINE float reduce_max(Vf v) {
  const __m128 b =
      _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}
EA_INLINE double reduce_add(Vd v) {
  const __m128d b =
      _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(b, _mm_unpackhi_pd(b, b)));
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
