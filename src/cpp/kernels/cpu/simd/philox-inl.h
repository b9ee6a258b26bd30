// Random bits of runtime/philox.h, kLanes / 2 counters at a time, in memory
// order.
#pragma once

#include "kernels/cpu/simd/vec-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

typedef std::uint32_t Vu __attribute__((vector_size(kLanes * 4)));

constexpr int kCounters = kLanes / 2;        // counters of one vector
constexpr int kPhiloxWords = 4 * kCounters;  // their words: 2 vectors

struct PhiloxWords {
  Vu first, second;  // words of kLanes / 4 counters each, one after another
};

// Keys of the ten rounds, shared by all counters of (seed, stream). They are
// vectors in memory, because they do not fit the registers.
struct PhiloxKeys {
  Vq k0[10], k1[10];
  Vq stream_low, stream_high;
};
EA_INLINE void make_philox_keys(std::uint64_t seed, std::uint64_t stream,
                                PhiloxKeys& keys) {
  const Vq zero{};
  std::uint32_t k0 = static_cast<std::uint32_t>(seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    keys.k0[round] = zero + k0;
    keys.k1[round] = zero + k1;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  keys.stream_low = zero + (stream & 0xFFFFFFFFu);
  keys.stream_high = zero + (stream >> 32);
}

// Returns the words of counters index .. index + kCounters - 1. A lane of 64
// bits carries one counter, so that the 32 x 32 bit products need no shuffles;
// the bits that a product leaves in the upper half of a lane are never read.
// Counters are assigned to lanes such that pairing the words of neighbouring
// 64-bit lanes yields them in memory order.
EA_INLINE PhiloxWords philox_words(const PhiloxKeys& keys,
                                   std::uint64_t index) {
  const Vq zero{};
  const Vq low = zero + 0xFFFFFFFFu;
  Vq c0 = zero + index + counter_order(), c1 = c0 >> 32;
  Vq c2 = keys.stream_low, c3 = keys.stream_high;
  for (int round = 0; round < 10; ++round) {
    const Vq p0 = multiply_low(c0, zero + 0xD2511F53u);
    const Vq p1 = multiply_low(c2, zero + 0xCD9E8D57u);
    c0 = (p1 >> 32) ^ c1 ^ keys.k0[round];
    c2 = (p0 >> 32) ^ c3 ^ keys.k1[round];
    c1 = p1;
    c3 = p0;
  }
  const Vq even = (c0 & low) | (c1 << 32);
  const Vq odd = (c2 & low) | (c3 << 32);
  return {(Vu)interleave_low(even, odd), (Vu)interleave_high(even, odd)};
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
