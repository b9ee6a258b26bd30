// Dropout of a run of elements, for kernels with fused dropout.
#pragma once

#include "kernels/cpu/simd/philox-inl.h"
#include "runtime/philox.h"

namespace ea::simd::EA_TARGET {
namespace {

// Constants shared by all elements of one draw (kernels/dropout.h).
struct Drop {
  Vf scale;
  Vu threshold;
  PhiloxKeys keys;
};
EA_INLINE void make_drop(double p, std::uint64_t seed, std::uint64_t stream,
                         Drop& drop) {
  drop.scale = set(static_cast<float>(1.0 / (1.0 - p)));
  drop.threshold = Vu{} + dropout_threshold(p);
  make_philox_keys(seed, stream, drop.keys);
}

// Drops up to kPhiloxWords elements by their random words.
template <typename T>
EA_INLINE void drop_some(const Drop& drop, const T* x, T* y, PhiloxWords words,
                         std::int64_t left) {
  const auto one = [&](std::int64_t i, Vu bits, auto part) {
    const Vf v = load(x + i, part) * drop.scale;
    store(y + i, bits >= drop.threshold ? v : set(0.0f), part);
  };
  if (left >= kPhiloxWords) {
    one(0, words.first, Full{});
    one(kLanes, words.second, Full{});
  } else if (left <= kLanes) {
    one(0, words.first, Part(left));
  } else {
    one(0, words.first, Full{});
    one(kLanes, words.second, Part(left - kLanes));
  }
}

// Computes y = dropout(x) for elements at .. at + n - 1 of a tensor. x and y
// point to the first of these elements and may be equal.
template <typename T>
EA_INLINE void drop_run(const Drop& drop, const T* x, T* y, std::int64_t at,
                        std::int64_t n) {
  auto counter = static_cast<std::uint64_t>(at) / 4;
  const std::int64_t skipped = at % 4;  // words of the first counter
  if (skipped == 0) {
    for (std::int64_t i = 0; i < n; i += kPhiloxWords, counter += kCounters) {
      drop_some(drop, x + i, y + i, philox_words(drop.keys, counter), n - i);
    }
    return;
  }
  // The run begins inside a counter, so the words of a step straddle two
  // blocks.
  std::uint32_t words[2 * kPhiloxWords];
  constexpr std::size_t kHalf = sizeof(words) / 2;
  PhiloxWords block = philox_words(drop.keys, counter);
  __builtin_memcpy(words, &block, kHalf);
  for (std::int64_t i = 0; i < n; i += kPhiloxWords) {
    block = philox_words(drop.keys, counter += kCounters);
    __builtin_memcpy(words + kPhiloxWords, &block, kHalf);
    PhiloxWords mine;
    __builtin_memcpy(&mine, words + skipped, kHalf);
    drop_some(drop, x + i, y + i, mine, n - i);
    __builtin_memcpy(words, &block, kHalf);
  }
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
