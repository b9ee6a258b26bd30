// The values of a tensor, for loops on the host.
#pragma once

#include "tensor/tensor.h"

namespace ea {

// Returns t as `dtype`, broadcast to `shape`, row-major on the CPU; the memory
// may be that of t.
inline Tensor host_values(const Tensor& t, const Shape& shape, DType dtype) {
  return contiguous(expand_view(cast(to_device(t, kCpu), dtype), shape));
}

inline Tensor host_values(const Tensor& t, DType dtype) {
  return host_values(t, t.shape(), dtype);
}

}  // namespace ea
