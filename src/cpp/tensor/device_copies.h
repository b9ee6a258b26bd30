// Copies that need a device's own kernels. tensor/ must not include kernels/,
// so the functions that launch the kernels are passed in.
#pragma once

#include "tensor/tensor_view.h"

namespace ea {

// Arguments as in the contracts of kernels/copy.h; no tensor is on the CPU.
struct DeviceCopies {
  void (*copy)(const TensorView& x, const TensorView& y);
  void (*cast)(const TensorView& x, const TensorView& y);
  void (*fill)(const TensorView& y, double value);
};

// Call it once at the start of the process, before any tensor is on a device.
void set_device_copies(const DeviceCopies& copies);
const DeviceCopies& device_copies();

}  // namespace ea
