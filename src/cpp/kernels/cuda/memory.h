// Memory of one device: a counting pool that allocates in stream order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/api.h"
#include "runtime/allocator.h"

namespace ea::cuda {

// Uses its own pool (cudaMallocFromPoolAsync), so other users of CUDA in the
// process keep theirs. Freed blocks stay in the pool for later work on the
// stream, without synchronising with the device.
class DeviceMemory {
 public:
  DeviceMemory(int index, cudaStream_t stream);

  // On failure, releases the pool's cached memory and tries once more. Throws
  // OutOfMemory, with the sizes, if that fails too.
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
