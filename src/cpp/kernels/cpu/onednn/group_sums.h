// Adds up the separate sums of groups of a depth, or of images.
#pragma once

#include <cstdint>

#include "runtime/threads.h"

namespace ea::onednn {

// Adds sums [groups, elements] to those of the first group, in group order.
inline void add_groups(float* sums, std::int64_t groups,
                       std::int64_t elements) {
  constexpr std::int64_t kGrain = 1 << 15;
  parallel_chunks(elements, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = 1; g < groups; ++g) {
      const float* const from = sums + g * elements;
      for (std::int64_t i = begin; i < end; ++i) sums[i] += from[i];
    }
  });
}

}  // namespace ea::onednn
