// Devices as arguments.
#pragma once

#include "bindings/bind.h"
#include "runtime/device.h"

namespace ea {

// "cpu", "cuda", "cuda:1" or "auto". Throws ConfigError for other things, and
// BackendUnavailable where there is no such device.
Device device_of_python(const py::handle& name);

// Whether a text means a device, well spelled or not.
bool names_device(const py::handle& object);

}  // namespace ea
