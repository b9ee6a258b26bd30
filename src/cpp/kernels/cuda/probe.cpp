// Availability checks, most likely failure first.
#include "kernels/cuda/probe.h"

#include <dlfcn.h>

#include <charconv>
#include <string>

#include "kernels/cuda/cublas.h"
#include "kernels/cuda/device.h"
#include "runtime/check.h"
#include "runtime/env.h"

namespace ea::cuda {

namespace {

constexpr const char* kArchitectures = EA_CUDA_ARCHITECTURES;
constexpr const char* kDriver = "libcuda.so.1";
constexpr const char* kElse = "; or use device=\"cpu\"";

// Formats 13000 as "13.0".
std::string version(int number) {
  return format("{}.{}", number / 1000, number % 1000 / 10);
}

std::string no_driver() {
  void* const driver = dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);
  const std::string found = driver != nullptr
                                ? "it was found and says that it drives nothing"
                                : dlerror();
  if (driver != nullptr) dlclose(driver);
  return format(
      "no NVIDIA driver: looked for {} where the system's loader looks ({}); "
      "install the driver, start a container with its GPUs (--gpus all){}",
      kDriver, found, kElse);
}

std::string no_gpu() {
  const std::string& visible = env::cuda_visible_devices();
  return format(
      "the NVIDIA driver ({}) shows no GPU to this process, "
      "CUDA_VISIBLE_DEVICES is {}; check nvidia-smi{}",
      kDriver, visible.empty() ? "empty or not set" : "'" + visible + "'",
      kElse);
}

std::string old_driver(int driver) {
  return format(
      "the NVIDIA driver ({}) knows CUDA up to {}, and this build is of {}: "
      "update the driver, or build with an older toolkit{}",
      kDriver, version(driver), version(CUDART_VERSION), kElse);
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, index), "device");
  return value;
}

// Returns why GPU number `index` cannot be used, or an empty string if it can.
std::string unfit(int index) {
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, index);
  const int minor = attribute(cudaDevAttrComputeCapabilityMinor, index);
  if (!has_code_for(kArchitectures, major, minor)) {
    return format(
        "cuda:{} has compute capability {}.{}, and this build has code for {}: "
        "build it with -C cmake.define.EA_CUDA_ARCHITECTURES={}{}, or hide the "
        "GPU by CUDA_VISIBLE_DEVICES{}",
        index, major, minor, kArchitectures, major, minor, kElse);
  }
  if (attribute(cudaDevAttrMemoryPoolsSupported, index) == 0) {
    return format(
        "cuda:{}: its driver has no memory pools (cudaMallocAsync): update it, "
        "or hide the GPU by CUDA_VISIBLE_DEVICES{}",
        index, kElse);
  }
  return "";
}

// Returns the number of GPUs, or 0 and the reason if any cannot be used.
int count_gpus(std::string& reason) {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    reason = no_driver();
    return 0;
  }
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    reason = old_driver(driver);
  } else if (status == cudaErrorNoDevice ||
             (status == cudaSuccess && count == 0)) {
    reason = no_gpu();
  } else if (status != cudaSuccess) {
    reason = format("the NVIDIA driver ({}, CUDA {}) does not start: {} ({}){}",
                    kDriver, version(driver), cudaGetErrorString(status),
                    cudaGetErrorName(status), kElse);
  }
  for (int i = 0; reason.empty() && i < count; ++i) reason = unfit(i);
  return reason.empty() ? count : 0;
}

}  // namespace

bool has_code_for(std::string_view architectures, int major, int minor) {
  while (!architectures.empty()) {
    const auto end = architectures.find(',');
    const std::string_view one = architectures.substr(0, end);
    architectures = end == std::string_view::npos
                        ? std::string_view()
                        : architectures.substr(end + 1);
    int number = 0;
    const auto read =
        std::from_chars(one.data(), one.data() + one.size(), number);
    if (read.ec != std::errc()) return true;
    const std::string_view rest =
        one.substr(static_cast<std::size_t>(read.ptr - one.data()));
    const int here = 10 * major + minor;
    if (rest.starts_with('a')) {
      if (here == number) return true;
      continue;
    }
    const bool real = !rest.ends_with("-virtual");
    const bool intermediate = !rest.ends_with("-real");
    if (real && major == number / 10 && here >= number) return true;
    if (intermediate && here >= number) return true;
  }
  return false;
}

ProbedBackend probe() {
  std::string reason;
  try {
    const int count = count_gpus(reason);
    if (count == 0) return {nullptr, reason};
    static_cast<void>(cublas_report());
    return {make_backend(count), ""};
  } catch (const Error& error) {
    return {nullptr, error.what()};
  }
}

}  // namespace ea::cuda
