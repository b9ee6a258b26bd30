// The GPUs of this machine as devices, for the device registry.
#pragma once

#include <memory>

#include "runtime/device_backend.h"

namespace ea::cuda {

// Returns a backend for the first `count` GPUs; this build must have code for
// all of them.
std::unique_ptr<DeviceBackend> make_backend(int count);

// Allocate and free memory of a device, counted like the memory of its tensors.
MemoryBlock allocate_on(int index, std::size_t bytes);
void deallocate_on(int index, MemoryBlock block) noexcept;

}  // namespace ea::cuda
