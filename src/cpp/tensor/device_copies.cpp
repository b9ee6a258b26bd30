// Stores the copy functions of devices.
#include "tensor/device_copies.h"

namespace ea {

namespace {
DeviceCopies functions{};
}  // namespace

void set_device_copies(const DeviceCopies& copies) { functions = copies; }

const DeviceCopies& device_copies() { return functions; }

}  // namespace ea
