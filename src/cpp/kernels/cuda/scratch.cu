// Scratch memory from the device's own stream-ordered pool.
#include "kernels/cuda/scratch.h"

namespace ea::cuda {

void* allocate_scratch(cudaStream_t stream, std::size_t bytes) {
  void* data = nullptr;
  check_cuda(cudaMallocAsync(&data, bytes, stream), "scratch");
  return data;
}

// Called by destructors, which cannot throw; an error that lasts shows at the
// next launch.
void free_scratch(cudaStream_t stream, void* data) noexcept {
  static_cast<void>(cudaFreeAsync(data, stream));
}

}  // namespace ea::cuda
