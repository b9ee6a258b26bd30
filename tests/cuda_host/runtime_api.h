// The emulated CUDA runtime, for what starts kernels on it.
#pragma once

#include <cuda_runtime_api.h>

namespace ea::emulation {

// Does what a stream has still to do: see runtime_api.cpp.
void finish_stream(cudaStream_t stream);

}  // namespace ea::emulation
