// Memory of one device: taken from a pool in stream order, cached and counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/api.h"
#include "runtime/allocator.h"

namespace ea::cuda {

// A pool of its own (cudaMallocFromPoolAsync): other users of CUDA in the
// process keep theirs. Freed blocks stay in it for reuse by later work of the
// stream, without waiting for the device.
class DeviceMemory {
 public:
  DeviceMemory(int index, cudaStream_t stream);

  // Throws OutOfMemory, which names the sizes, after having given back what the
  // pool kept for reuse and tried once more.
  MemoryBlock allocate(std::size_t bytes);
  void deallocate(MemoryBlock block) noexcept;

  MemoryStatistics statistics() const;
  void reset_peak();
  void release_cached();
  void set_limit(std::int64_t bytes);  // 0: none

 private:
  std::uint64_t attribute(cudaMemPoolAttr which) const;
  [[noreturn]] void out_of_memory(std::size_t bytes, const char* why) const;

  int index_;
  cudaStream_t stream_;
  cudaMemPool_t pool_ = nullptr;
  std::atomic<std::int64_t> current_{0}, peak_{0}, limit_{0};
};

}  // namespace ea::cuda
