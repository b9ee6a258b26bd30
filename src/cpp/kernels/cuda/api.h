// Calls into the CUDA runtime; errors become exceptions that say what to do.
#pragma once

#include <cuda_runtime_api.h>

namespace ea::cuda {

// Throws OutOfMemory, DeviceError (after a fork) or Error unless the call
// succeeded. `what` names the call in the message.
void check_cuda(cudaError_t status, const char* what);

// Makes a device the current one of this thread during its lifetime.
class UseDevice {
 public:
  explicit UseDevice(int index);
  ~UseDevice();
  UseDevice(const UseDevice&) = delete;
  UseDevice& operator=(const UseDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_;
};

}  // namespace ea::cuda
