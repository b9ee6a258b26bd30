// The emulated CUDA runtime, for what starts kernels on it.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <mutex>
#include <string>

namespace ea::emulation {

// Does what a stream has still to do: see runtime_api.cpp.
void finish_stream(cudaStream_t stream);

bool is_captured(cudaStream_t stream);
// The same, and then `work` is in the graph, to be done at every start of it.
// It owns what it needs.
bool write_down(cudaStream_t stream, std::function<void()> work);
// True where a call must not be: the stream is captured, or this thread
// captures, on that device or any. The capture is then spoiled.
bool spoils(cudaStream_t stream);
bool spoils(int device = -1);

// Of all streams, events and memory.
std::recursive_mutex& everything();
// What is wrong with this machine: see machine.cpp.
std::string amiss();

}  // namespace ea::emulation
