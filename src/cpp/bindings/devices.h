// Reads device arguments.
#pragma once

#include "bindings/bind.h"
#include "runtime/device.h"

namespace ea {

// Reads "cpu", "cuda", "cuda:1" or "auto". Throws ConfigError for other values,
// and BackendUnavailable if the device does not exist.
Device device_of_python(const py::handle& name);

// Whether a text names a device, even if misspelled.
bool names_device(const py::handle& object);

}  // namespace ea
