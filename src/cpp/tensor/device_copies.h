// Copies that only a device's own kernels can make. This room may not know
// kernels, so the functions that start them are handed to it.
#pragma once

#include "tensor/tensor_view.h"

namespace ea {

// Arguments as those of the contracts in kernels/copy.h, none on the CPU.
struct DeviceCopies {
  void (*copy)(const TensorView& x, const TensorView& y);
  void (*cast)(const TensorView& x, const TensorView& y);
  void (*fill)(const TensorView& y, double value);
};

// Once, at the start of the process, before there is a tensor on a device.
void set_device_copies(const DeviceCopies& copies);
const DeviceCopies& device_copies();

}  // namespace ea
