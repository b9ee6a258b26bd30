// Vectors of floats: load, store, arithmetic and loops, for one instruction
// set.
//
// The sources of this folder are compiled once per instruction set, with
// EA_TARGET naming it. Everything here has internal linkage and is inlined, and
// no template of the standard library is used that leaves a symbol, so that the
// linker can never keep code of the wrong instruction set
// (tools/check_simd_symbols.py looks).
//
//   Vf       kLanes floats; + - * / and comparisons are the compiler's own, a
//            comparison gives Vi lanes of 0 or -1, and `mask ? a : b` selects
//   Full     stands for all lanes, Part{n} for the first n: loads and stores
//            take either, so that a loop body is written once (for_vectors)
#pragma once

#include <cstdint>

#include "runtime/bfloat16.h"

#define EA_INLINE_CALL __attribute__((always_inline))  // after a lambda's ()
#define EA_INLINE inline EA_INLINE_CALL

namespace ea::simd::EA_TARGET {
namespace {

struct Full {};

// Returns the 16 bits of each lane rounded to bfloat16 (nearest even; NaN stays
// NaN), exactly as in runtime/bfloat16.h.
template <typename V>
EA_INLINE auto bfloat16_bits(V v) {
  typedef std::uint32_t Vu __attribute__((vector_size(sizeof(V))));
  const Vu u = (Vu)v;
  const Vu rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return v != v ? ((u >> 16) | 0x40u) : rounded;
}

}  // namespace
}  // namespace ea::simd::EA_TARGET

#if defined(__AVX512F__)
#include "kernels/cpu/simd/vec_avx512-inl.h"
#else
#include "kernels/cpu/simd/vec_avx2-inl.h"
#endif

namespace ea::simd::EA_TARGET {
namespace {

EA_INLINE Vf load(const float* p) { return load(p, Full{}); }
EA_INLINE Vf load(const bfloat16* p) { return load(p, Full{}); }
EA_INLINE void store(float* p, Vf v) { store(p, v, Full{}); }
EA_INLINE void store(bfloat16* p, Vf v) { store(p, v, Full{}); }

EA_INLINE Vf abs(Vf v) { return (Vf)((Vi)v & 0x7fffffff); }

// Load and store one element.
EA_INLINE float load_one(const float* p) { return *p; }
EA_INLINE float load_one(const bfloat16* p) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(p->bits) << 16);
}
EA_INLINE void store_one(float* p, float x) { *p = x; }
EA_INLINE void store_one(bfloat16* p, float x) {
  const std::uint32_t u = __builtin_bit_cast(std::uint32_t, x);
  p->bits = static_cast<std::uint16_t>(
      x != x ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// Returns v as a load reads it after a store.
EA_INLINE Vf as_stored(Vf v, const float*) { return v; }
EA_INLINE Vf as_stored(Vf v, const bfloat16*) {
  return (Vf)(bfloat16_bits(v) << 16);
}

// Calls fn(i, Full{}) for each whole vector of n elements, then fn(i, Part{})
// for the rest.
template <typename Fn>
EA_INLINE void for_vectors(std::int64_t n, Fn&& fn) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) fn(i, Full{});
  if (i < n) fn(i, Part(n - i));
}

// Compile-time integer.
template <int kValue>
struct Always {
  EA_INLINE constexpr operator int() const { return kValue; }
};

// Calls fn(Always<n>) for 1 <= n < kMost, else fn(Always<kMost>).
template <int kMost, int kFirst = 1, typename Fn>
EA_INLINE void with_count(std::int64_t n, Fn&& fn) {
  if constexpr (kFirst < kMost) {
    if (n != kFirst) return with_count<kMost, kFirst + 1>(n, fn);
  }
  fn(Always<kFirst>{});
}

// Writes n zeros.
template <typename T>
EA_INLINE void clear(T* to, std::int64_t n) {
  for_vectors(
      n, [&](std::int64_t i, auto part) { store(to + i, set(0.0f), part); });
}

// Return the sum (maximum) of the lanes of fn(i, part) over n elements; fn may
// return anything in lanes outside the part. Four accumulators are combined in
// a tree, so the order of a sum depends on n alone.
template <typename Fn>
EA_INLINE Vf sum_vectors(std::int64_t n, Fn&& fn) {
  Vf a = set(0), b = set(0), c = set(0), d = set(0);
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a += fn(i, Full{});
    b += fn(i + kLanes, Full{});
    c += fn(i + 2 * kLanes, Full{});
    d += fn(i + 3 * kLanes, Full{});
  }
  for (; i + kLanes <= n; i += kLanes) a += fn(i, Full{});
  if (i < n) {
    const Part part(n - i);
    b += only(fn(i, part), part, set(0));
  }
  return (a + b) + (c + d);
}
template <typename Fn>
EA_INLINE float sum_over(std::int64_t n, Fn&& fn) {
  return reduce_add(sum_vectors(n, fn));
}
template <typename Fn>
EA_INLINE float max_over(std::int64_t n, Fn&& fn) {
  const Vf lowest = set(-__builtin_inff());
  Vf a = lowest, b = lowest;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    a = max(a, fn(i, Full{}));
    b = max(b, fn(i + kLanes, Full{}));
  }
  if (i + kLanes <= n) {
    a = max(a, fn(i, Full{}));
    i += kLanes;
  }
  if (i < n) {
    const Part part(n - i);
    b = max(b, only(fn(i, part), part, lowest));
  }
  return reduce_max(max(a, b));
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
