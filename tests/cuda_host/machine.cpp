// The machine of the emulated CUDA: its driver, its GPUs, and what errors are
// called.
//
// EA_EMULATED_CUDA makes it one with something amiss: no_driver, old_driver,
// no_gpu, no_pools, capability=M.m (instead of 9.0); no_cublas is seen to in
// cublas.cpp, no_graphs in graphs.cpp.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "arena.h"
#include "runtime_api.h"

using ea::emulation::amiss;
using ea::fake::Arena;

namespace {

thread_local int current = 0;

}  // namespace

namespace ea::emulation {

// "no_gpu", "capability=7.5".
std::string amiss() {
  const char* const value = std::getenv("EA_EMULATED_CUDA");
  return value == nullptr ? "" : value;
}

}  // namespace ea::emulation

cudaError_t cudaGetLastError() { return cudaSuccess; }

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "driver version is insufficient for runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default:
      return "invalid argument";
  }
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    default:
      return "cudaErrorInvalidValue";
  }
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = amiss() == "no_driver"    ? 0
             : amiss() == "old_driver" ? 12020
                                       : 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (amiss() == "old_driver") return cudaErrorInsufficientDriver;
  if (amiss() == "no_gpu") return cudaErrorNoDevice;
  *count = ea::fake::kDevices;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= ea::fake::kDevices) return cudaErrorInvalidDevice;
  current = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  const std::string name = "emulated GPU " + std::to_string(device);
  std::memcpy(properties->name, name.c_str(), name.size() + 1);
  cudaDeviceGetAttribute(&properties->major, cudaDevAttrComputeCapabilityMajor,
                         device);
  cudaDeviceGetAttribute(&properties->minor, cudaDevAttrComputeCapabilityMinor,
                         device);
  properties->multiProcessorCount = 1;
  properties->totalGlobalMem = Arena::kBytes;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const std::string what = amiss();
  const std::string key = "capability=";
  const std::string given =
      what.rfind(key, 0) == 0 ? what.substr(key.size()) : "9.0";
  const std::size_t dot = given.find('.');
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = std::stoi(given.substr(0, dot));
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = std::stoi(given.substr(dot + 1));
      return cudaSuccess;
    default:
      *value = what == "no_pools" ? 0 : 1;
      return cudaSuccess;
  }
}
