// The emulated CUDA runtime, for what starts kernels on it.
#pragma once

namespace ea::emulation {

// Does what the thread's current device has still to do: see runtime_api.cpp.
void finish_stream();

}  // namespace ea::emulation
