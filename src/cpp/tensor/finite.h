// Searches for numbers that are not finite.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor_view.h"

namespace ea {

// Returns the index of the first NaN or infinity, or -1.
std::int64_t first_not_finite(std::span<const float> values);
// Takes a contiguous tensor on the CPU; returns -1 for integer types.
std::int64_t first_not_finite(const TensorView& t);

}  // namespace ea
