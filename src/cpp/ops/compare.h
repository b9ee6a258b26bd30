// Comparisons element by element, and where the extreme elements lie.
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

// 1 where a (op) b holds, else 0: uint8 of the broadcast shape on a's device.
// Integers are compared exactly, anything else as float64. NaN differs from
// everything. Waits for the device.
Tensor compare(Comparison op, const Tensor& a, const Tensor& b);

enum class Logic : std::uint8_t { both, either, one };

// What masks say together: 1 or 0, uint8 of the broadcast shape on a's device.
// A mask is uint8, and holds where it is not 0. Waits for the device.
Tensor combine(Logic op, const Tensor& a, const Tensor& b);

// Index along the axis, or in row-major order over all elements, of the first
// maximum (or minimum): int64 on x's device. The first NaN wins.
Tensor argmax(const Tensor& x, std::optional<int> axis, bool keepdims);
Tensor argmin(const Tensor& x, std::optional<int> axis, bool keepdims);

}  // namespace ea
