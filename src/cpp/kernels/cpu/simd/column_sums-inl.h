// Weighted sums of rows; the sums of a few columns stay in registers during the
// loop over rows.
#pragma once

#include "kernels/cpu/simd/vec-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Calls fn(e, Always<n>, part) for runs of n vectors of d elements; `part`
// covers the lanes of the last vector.
template <typename Fn>
EA_INLINE void for_runs(std::int64_t d, Fn&& fn) {
  std::int64_t e = 0;
  for (; e + 4 * kLanes <= d; e += 4 * kLanes) fn(e, Always<4>{}, Full{});
  if (e + 2 * kLanes <= d) {
    fn(e, Always<2>{}, Full{});
    e += 2 * kLanes;
  }
  if (e + kLanes <= d) {
    fn(e, Always<1>{}, Full{});
    e += kLanes;
  }
  if (e < d) fn(e, Always<1>{}, Part(d - e));
}

// sums += weight x
template <int kVectors, typename T, typename P>
EA_INLINE void add_row(float weight, const T* x, P part, Vf (&sums)[kVectors]) {
  const Vf w = set(weight);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    sums[v] = fma(w, load(x + v * kLanes, part), sums[v]);
  }
}

// Computes to = scale times the sums that add(e, part, sums) accumulates, for
// runs of elements.
template <typename T, typename Add>
EA_INLINE void store_sums(std::int64_t d, float scale, T* to, Add&& add) {
  for_runs(d, [&](std::int64_t e, auto vectors, auto part) {
    constexpr int kVectors = vectors;
    Vf sums[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[v] = set(0.0f);
    add(e, part, sums);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      store(to + e + v * kLanes, sums[v] * set(scale), part);
    }
  });
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
