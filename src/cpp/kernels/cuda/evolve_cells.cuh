// Input and result of the evolving step, cell by cell, from maps in memory.
#pragma once

#include "kernels/cuda/conv_window.cuh"
#include "kernels/cuda/evolve_numbers.h"

namespace ea::cuda {

// I = a M + b S, 0 where no cell exists. S: element type of the scores.
template <typename T, typename S>
struct MixedCells {
  const T* previous;  // or null
  const S* scores;
  EvolveNumbers c;

  template <int N>
  __device__ void load(const MapBlock& at, int h, int i, int j,
                       float (&v)[N]) const {
    const CellOfHeads cell(at, h, i, j);
    const bool there = at.exists(i, j);
    float m[N] = {};
#pragma unroll
    for (int k = 0; k < N; ++k) v[k] = static_cast<float>(scores[cell(k)]);
    if (previous != nullptr) {
#pragma unroll
      for (int k = 0; k < N; ++k) m[k] = static_cast<float>(previous[cell(k)]);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) v[k] = there ? c.a * m[k] + c.b * v[k] : 0.0f;
  }
};

template <typename T, typename S>
using MixedWindow = FromCells<kFloatParts, MixedCells<T, S>>;

// L = p M + s S + w ReLU(Z) of Z = Conv(I).
template <typename T, typename S>
struct EvolvedWork {
  static constexpr bool kGates = false;
  MixedWindow<T, S> input;
  T* out;

  template <int N>
  __device__ void finish(std::int64_t cell, unsigned there,
                         const float (&z)[N]) const {
    const MixedCells<T, S>& in = input.value;
    const bool whole = is_few<N>(out + cell) && is_few<N>(in.scores + cell) &&
                       is_few<N>(in.previous + cell);
    float m[N] = {}, s[N], l[N];
    load_few(in.scores + cell, whole, s);
    if (in.previous != nullptr) load_few(in.previous + cell, whole, m);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float open = z[k] < 0.0f ? 0.0f : z[k];
      const float sum = in.c.p * m[k] + in.c.s * s[k] + in.c.w * open;
      l[k] = (there >> k & 1u) != 0 ? sum : 0.0f;
    }
    store_few(out + cell, whole, l);
  }
};

// dI = Conv^T(G), dS = s dL + b dI, dM = p dL + a dI. D, S: element types of dL
// and dS.
template <typename Gate, typename D, typename S, typename T>
struct EvolveGradientWork {
  static constexpr bool kGates = false;
  Gate input;
  EvolveNumbers c;
  const D* dl;
  S* dscores;
  T* dprevious;              // or null
  T* dscore_bias = nullptr;  // second copy of dS; or null

  template <int N>
  __device__ void finish(std::int64_t cell, unsigned there,
                         const float (&di)[N]) const {
    const bool whole = is_few<N>(dl + cell) && is_few<N>(dscores + cell) &&
                       is_few<N>(dprevious + cell) &&
                       is_few<N>(dscore_bias + cell);
    float d[N], ds[N], dm[N];
    load_few(dl + cell, whole, d);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if ((there >> k & 1u) == 0) d[k] = 0.0f;
      ds[k] = c.s * d[k] + c.b * di[k];
      dm[k] = c.p * d[k] + c.a * di[k];
    }
    store_few(dscores + cell, whole, ds);
    if (dprevious != nullptr) store_few(dprevious + cell, whole, dm);
    if (dscore_bias != nullptr) store_few(dscore_bias + cell, whole, ds);
  }
};

}  // namespace ea::cuda
