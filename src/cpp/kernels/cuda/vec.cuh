// 16-byte packs: one 128-bit load or store per thread, and their float values.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/launch.h"
#include "runtime/bfloat16.h"

namespace ea::cuda {

// Elements of one pack: 4 floats or 8 bfloat16.
template <typename T>
inline constexpr int kPack = static_cast<int>(16 / sizeof(T));

// Returns whether every pack that starts a multiple of kPack elements after p
// can be loaded at once. `stride`: elements from one row to the next.
template <typename T>
inline bool packs_aligned(const T* p, std::int64_t stride = 0) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0 &&
         stride % kPack<T> == 0;
}

__device__ inline float float_of_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

__device__ inline std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Returns 2^x within 2^-22 of it; 0 for results below the normal numbers.
__device__ inline float exp2_near(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}
inline constexpr float kLog2OfE = 1.44269504088896341f;

// Rounds two floats to bfloat16; `low` goes to the lower half.
__device__ inline std::uint32_t bf16_pair(float low, float high) {
#if defined(__CUDA_ARCH__)
  std::uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return bfloat16(low).bits |
         (static_cast<std::uint32_t>(bfloat16(high).bits) << 16);
#endif
}

__device__ inline void unpack(const uint4& words, float (&out)[4]) {
  out[0] = float_of_bits(words.x);
  out[1] = float_of_bits(words.y);
  out[2] = float_of_bits(words.z);
  out[3] = float_of_bits(words.w);
}

// A bfloat16 is the upper half of a float.
__device__ inline void unpack(const uint4& words, float (&out)[8]) {
  const std::uint32_t each[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = float_of_bits(each[i] << 16);
    out[2 * i + 1] = float_of_bits(each[i] & 0xffff0000u);
  }
}

__device__ inline uint4 pack(const float (&in)[4]) {
  return uint4{bits_of_float(in[0]), bits_of_float(in[1]), bits_of_float(in[2]),
               bits_of_float(in[3])};
}

__device__ inline uint4 pack(const float (&in)[8]) {
  return uint4{bf16_pair(in[0], in[1]), bf16_pair(in[2], in[3]),
               bf16_pair(in[4], in[5]), bf16_pair(in[6], in[7])};
}

// Loads elements p[0 .. count) as floats and sets the rest to 0. `aligned`
// (packs_aligned) allows a full pack to be one load; the values are the same
// either way.
template <typename T>
__device__ inline void load_pack(const T* p, std::int64_t count, bool aligned,
                                 float (&out)[kPack<T>]) {
  if (aligned && count >= kPack<T>) {
    unpack(*reinterpret_cast<const uint4*>(p), out);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) {
    out[i] = i < count ? static_cast<float>(p[i]) : 0.0f;
  }
}

// Rounds and stores the first `count` values of a pack.
template <typename T>
__device__ inline void store_pack(T* p, std::int64_t count, bool aligned,
                                  const float (&in)[kPack<T>]) {
  if (aligned && count >= kPack<T>) {
    *reinterpret_cast<uint4*>(p) = pack(in);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) {
    if (i < count) p[i] = T(in[i]);
  }
}

// N adjacent elements as one word.
template <int N, typename E>
struct alignas(N * sizeof(E)) Few {
  static constexpr int kWords = N * sizeof(E) / 4;
  std::uint32_t words[kWords];

  __device__ float operator[](int k) const {
    if constexpr (sizeof(E) == 4) {
      return float_of_bits(words[k]);
    } else {
      return float_of_bits(k % 2 == 0 ? words[k / 2] << 16
                                      : words[k / 2] & 0xffff0000u);
    }
  }
  __device__ void set(const float (&v)[N]) {
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      if constexpr (sizeof(E) == 4) {
        words[k] = bits_of_float(v[k]);
      } else {
        words[k] = bf16_pair(v[2 * k], v[2 * k + 1]);
      }
    }
  }
};

// Returns whether N elements starting at p can be loaded and stored at once.
template <int N, typename E>
EA_HOST_DEVICE inline bool is_few(const E* p) {
  return reinterpret_cast<std::uintptr_t>(p) % (N * sizeof(E)) == 0;
}

// Load N adjacent elements as floats, and store them rounded. `whole` (is_few)
// makes them one word; the values are the same either way.
template <int N, typename E>
__device__ inline void load_few(const E* p, bool whole, float (&v)[N]) {
  if constexpr (N > 1) {
    if (whole) {
      const auto word = *reinterpret_cast<const Few<N, E>*>(p);
#pragma unroll
      for (int k = 0; k < N; ++k) v[k] = word[k];
      return;
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k) v[k] = static_cast<float>(p[k]);
}
template <int N, typename E>
__device__ inline void store_few(E* p, bool whole, const float (&v)[N]) {
  if constexpr (N > 1) {
    if (whole) {
      Few<N, E> word;
      word.set(v);
      *reinterpret_cast<Few<N, E>*>(p) = word;
      return;
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k) p[k] = E(v[k]);
}

// Calls fn(first element, elements from there to the end) for this thread's
// packs of a row; kThreads threads share the row.
template <typename T, int kThreads, typename Fn>
__device__ inline void for_my_packs(std::int64_t width, Fn&& fn) {
  for (std::int64_t i = threadIdx.x * kPack<T>; i < width;
       i += std::int64_t{kThreads} * kPack<T>) {
    fn(i, width - i);
  }
}

// Returns the value after storing it as T and reading it back.
template <typename T>
__device__ inline float stored(float value) {
  if constexpr (sizeof(T) == 2) {
    return float_of_bits(bf16_pair(value, 0.0f) << 16);
  } else {
    return static_cast<float>(T(value));
  }
}

}  // namespace ea::cuda
