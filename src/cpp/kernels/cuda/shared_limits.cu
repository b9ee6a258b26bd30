// Queries the shared memory limits of the current device.
#include "kernels/cuda/shared_limits.h"

#include "kernels/cuda/launch.h"

namespace ea::cuda {

SharedLimits shared_limits() {
  int device = 0, block = 0, multiprocessor = 0;
  check_cuda(cudaGetDevice(&device), "shared_limits");
  check_cuda(cudaDeviceGetAttribute(
                 &block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "shared_limits");
  check_cuda(
      cudaDeviceGetAttribute(
          &multiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device),
      "shared_limits");
  return limits_from(static_cast<std::size_t>(block),
                     static_cast<std::size_t>(multiprocessor));
}

}  // namespace ea::cuda
