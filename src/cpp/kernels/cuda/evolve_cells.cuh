// The evolving step's input and result, cell by cell, from maps in memory.
#pragma once

#include "kernels/cuda/conv_window.cuh"
#include "kernels/cuda/evolve_numbers.h"

namespace ea::cuda {

// I = a M + b S, 0 where no cell exists. S: the element type of the scores.
template <typename T, typename S>
struct MixedCells {
  const T* previous;  // or null
  const S* scores;
  EvolveNumbers c;

  __device__ float operator()(const MapBlock& at, int h, std::int64_t i,
                              std::int64_t j) const {
    if (!at.exists(i, j)) return 0.0f;
    const std::int64_t cell = at.row(h, i) + j;
    const float s = c.b * static_cast<float>(scores[cell]);
    return previous == nullptr ? s
                               : c.a * static_cast<float>(previous[cell]) + s;
  }
};

template <typename T, typename S>
using MixedWindow = FromCells<kFloatParts, MixedCells<T, S>>;

// What begins with Z = Conv(I).
template <typename T, typename S>
struct MixedWork {
  static constexpr int kCount = kFloatParts;
  static constexpr bool kGates = false;
  MixedWindow<T, S> input;

  __device__ MixedCells<T, S> source() const { return input.value; }
  template <typename Cells>
  __device__ void fill(const MapBlock& at, const ConvShape&,
                       const Window& window, const Cells& to, float*) const {
    input.fill(at, window, to);
  }
  __device__ float meet(float z, float) const { return z; }
};

// L = p M + s S + w ReLU(Z).
template <typename T, typename S>
struct EvolvedWork : MixedWork<T, S> {
  T* out;

  __device__ void finish(const MapBlock& at, int h, std::int64_t i,
                         std::int64_t j, float z) const {
    const MixedCells<T, S>& in = this->input.value;
    const std::int64_t cell = at.row(h, i) + j;
    const float kept = in.previous == nullptr
                           ? 0.0f
                           : in.c.p * static_cast<float>(in.previous[cell]);
    const float s = in.c.s * static_cast<float>(in.scores[cell]);
    const float l = kept + s + in.c.w * (z < 0.0f ? 0.0f : z);
    out[cell] = T(at.exists(i, j) ? l : 0.0f);
  }
};

// dI = Conv^T(G), dS = s dL + b dI, dM = p dL + a dI. D, S: the element types
// of dL and dS.
template <typename Gate, typename D, typename S, typename T>
struct EvolveGradientWork {
  static constexpr int kCount = kFloatParts;
  static constexpr bool kGates = false;
  Gate g;
  EvolveNumbers c;
  const D* dl;
  S* dscores;
  T* dprevious;              // or null
  T* dscore_bias = nullptr;  // dS again

  __device__ auto source() const { return g.value; }
  template <typename Cells>
  __device__ void fill(const MapBlock& at, const ConvShape&,
                       const Window& window, const Cells& to, float*) const {
    g.fill(at, window, to);
  }
  __device__ float meet(float z, float) const { return z; }
  __device__ void finish(const MapBlock& at, int h, std::int64_t i,
                         std::int64_t j, float di) const {
    const std::int64_t cell = at.row(h, i) + j;
    const bool exists = at.exists(i, j);
    const float d = exists ? static_cast<float>(dl[cell]) : 0.0f;
    dscores[cell] = S(c.s * d + c.b * di);
    if (dscore_bias != nullptr) dscore_bias[cell] = T(c.s * d + c.b * di);
    if (dprevious != nullptr) dprevious[cell] = T(c.p * d + c.a * di);
  }
};

}  // namespace ea::cuda
