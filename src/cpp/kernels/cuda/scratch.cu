// Scratch memory, counted like the memory of tensors.
#include "kernels/cuda/scratch.h"

#include "kernels/cuda/device.h"

namespace ea::cuda {

namespace {

int current_device() {
  int index = 0;
  check_cuda(cudaGetDevice(&index), "scratch");
  return index;
}

}  // namespace

MemoryBlock allocate_scratch(cudaStream_t, std::size_t bytes) {
  return allocate_on(current_device(), bytes);
}

// Must not throw: destructors call it.
void free_scratch(cudaStream_t, MemoryBlock block) noexcept {
  int index = 0;
  static_cast<void>(cudaGetDevice(&index));
  deallocate_on(index, block);
}

}  // namespace ea::cuda
