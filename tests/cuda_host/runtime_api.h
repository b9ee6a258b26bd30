// The emulated CUDA runtime, for code that launches kernels on it.
#pragma once

#include <cuda_runtime_api.h>

namespace ea::emulation {

// Runs the pending work of a stream: see runtime_api.cpp.
void finish_stream(cudaStream_t stream);

}  // namespace ea::emulation
