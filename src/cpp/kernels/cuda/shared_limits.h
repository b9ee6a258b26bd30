// Limits of shared memory per block on a GPU.
#pragma once

#include <cstddef>

namespace ea::cuda {

// Most bytes for one block, and for each of two blocks that run on one
// multiprocessor at a time, so that one computes while the other waits.
struct SharedLimits {
  std::size_t block, of_two;
};

// Derives the limits; the driver reserves 1 KB of the multiprocessor's memory
// per block.
constexpr SharedLimits limits_from(std::size_t block,
                                   std::size_t multiprocessor) {
  return {block, multiprocessor / 2 - 1024};
}

// Returns the limits of the current device.
SharedLimits shared_limits();

}  // namespace ea::cuda
