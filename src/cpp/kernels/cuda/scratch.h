// Device memory that lives for one kernel call: partial sums, sorted indices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "runtime/allocator.h"

namespace ea::cuda {

// Allocate and free in stream order: later work on `stream` may reuse freed
// memory. `stream` must belong to the current device.
MemoryBlock allocate_scratch(cudaStream_t stream, std::size_t bytes);
void free_scratch(cudaStream_t stream, MemoryBlock block) noexcept;

// Buffer of `count` uninitialised elements.
template <typename T>
class Scratch {
 public:
  Scratch(cudaStream_t stream, std::int64_t count) : stream_(stream) {
    if (count == 0) return;
    block_ =
        allocate_scratch(stream, static_cast<std::size_t>(count) * sizeof(T));
  }
  ~Scratch() {
    if (block_.data != nullptr) free_scratch(stream_, block_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return static_cast<T*>(block_.data); }

 private:
  cudaStream_t stream_;
  MemoryBlock block_;
};

}  // namespace ea::cuda
