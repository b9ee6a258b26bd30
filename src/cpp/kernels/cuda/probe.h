// Whether this machine has GPUs that this build can use, and if not, why.
#pragma once

#include <string_view>

#include "runtime/device_backend.h"

namespace ea::cuda {

// Looks for a driver, GPUs, code for them, and cuBLASLt; creates no context.
ProbedBackend probe();

// Whether code compiled for `architectures` (those of CMAKE_CUDA_ARCHITECTURES
// with commas: "80,90a", "80-real", "90-virtual") runs on compute capability
// major.minor. Real code does on its own major version from its minor version
// on, that for "90a" on 9.0 alone; intermediate code from its version on. A
// name without a number ("native") says nothing and is believed.
bool has_code_for(std::string_view architectures, int major, int minor);

}  // namespace ea::cuda
