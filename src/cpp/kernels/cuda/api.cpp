// Error texts, and selection of a thread's current device.
#include "kernels/cuda/api.h"

#include "runtime/check.h"

namespace ea::cuda {

namespace {

// Errors after which the process cannot use the device any more.
bool is_lasting(cudaError_t status) {
  return status == cudaErrorIllegalAddress ||
         status == cudaErrorLaunchFailure || status == cudaErrorAssert ||
         status == cudaErrorMisalignedAddress ||
         status == cudaErrorIllegalInstruction ||
         status == cudaErrorHardwareStackError ||
         status == cudaErrorECCUncorrectable;
}

}  // namespace

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // clears it: reported here
  const char* const text = cudaGetErrorString(status);
  const char* const name = cudaGetErrorName(status);
  if (status == cudaErrorMemoryAllocation) {
    fail<OutOfMemory>(what, "CUDA: {} ({})", text, name);
  }
  if (status == cudaErrorInitializationError) {
    fail<DeviceError>(what,
                      "CUDA: {} ({}): a process that was forked after CUDA had "
                      "begun cannot use it; start it with spawn",
                      text, name);
  }
  fail<Error>(what, "CUDA: {} ({}){}", text, name,
              is_lasting(status)
                  ? "; an earlier kernel may have caused it, and this process "
                    "can compute nothing more on the device: restart it, "
                    "with CUDA_LAUNCH_BLOCKING=1 to see which kernel it is"
                  : "");
}

UseDevice::UseDevice(int index) {
  check_cuda(cudaGetDevice(&before_), "device");
  changed_ = before_ != index;
  if (changed_) check_cuda(cudaSetDevice(index), "device");
}

UseDevice::~UseDevice() {
  if (changed_) static_cast<void>(cudaSetDevice(before_));
}

}  // namespace ea::cuda
