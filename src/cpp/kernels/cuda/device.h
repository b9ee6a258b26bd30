// The GPUs of this machine as devices: what the registry of devices asks.
#pragma once

#include <memory>

#include "runtime/device_backend.h"

namespace ea::cuda {

// Of the first `count` GPUs, all of which this build has code for.
std::unique_ptr<DeviceBackend> make_backend(int count);

// Memory of a device, counted like that of its tensors.
MemoryBlock allocate_on(int index, std::size_t bytes);
void deallocate_on(int index, MemoryBlock block) noexcept;

}  // namespace ea::cuda
