// How much shared memory the blocks of a kernel may have on a GPU.
#pragma once

#include <cstddef>

namespace ea::cuda {

// Bytes for one block at most, and for each of two that are to run on one
// multiprocessor at a time, so that one computes while the other waits.
struct SharedLimits {
  std::size_t block, of_two;
};

// What a multiprocessor has, of which the driver takes 1 KB for every block.
constexpr SharedLimits limits_from(std::size_t block,
                                   std::size_t multiprocessor) {
  return {block, multiprocessor / 2 - 1024};
}

// Of the current device.
SharedLimits shared_limits();

}  // namespace ea::cuda
