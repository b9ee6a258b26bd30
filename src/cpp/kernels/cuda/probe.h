// Checks whether this build can use this machine's GPUs, and if not, why.
#pragma once

#include <string_view>

#include "runtime/device_backend.h"

namespace ea::cuda {

// Looks for a driver, GPUs, code for them, and cuBLASLt. Creates no context.
ProbedBackend probe();

// Returns whether code compiled for `architectures` (values of
// CMAKE_CUDA_ARCHITECTURES, separated by commas: "80,90a", "80-real",
// "90-virtual") runs on compute capability major.minor. Real code runs on its
// major version, from its minor version on; code for "90a" runs only on 9.0.
// Intermediate code runs from its version on. A name without a number
// ("native") counts as a match.
bool has_code_for(std::string_view architectures, int major, int minor);

}  // namespace ea::cuda
