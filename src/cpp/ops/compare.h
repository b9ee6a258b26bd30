// Elementwise comparisons, and the positions of extreme elements.
#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace ea {

enum class Comparison : std::uint8_t {
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
};

// Returns 1 where a (op) b holds, else 0: uint8 of the broadcast shape on a's
// device. Integers are compared exactly, other types as float64. NaN differs
// from everything. Synchronises with the device.
Tensor compare(Comparison op, const Tensor& a, const Tensor& b);

enum class Logic : std::uint8_t { both, either, one };

// Combines two masks into 1 or 0: uint8 of the broadcast shape on a's device. A
// mask is uint8 and holds where it is not 0. Synchronises with the device.
Tensor combine(Logic op, const Tensor& a, const Tensor& b);

// Index of the first maximum (or minimum) along the axis, or in row-major order
// over all elements: int64 on x's device. The first NaN wins.
Tensor argmax(const Tensor& x, std::optional<int> axis, bool keepdims);
Tensor argmin(const Tensor& x, std::optional<int> axis, bool keepdims);

}  // namespace ea
