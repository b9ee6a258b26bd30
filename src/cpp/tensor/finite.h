// Searches for numbers that are not finite.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor_view.h"

namespace ea {

// The first element that is NaN or infinite, counted in order, or -1.
std::int64_t first_not_finite(std::span<const float> values);
// The same of a contiguous tensor on the CPU; -1 for integers.
std::int64_t first_not_finite(const TensorView& t);

}  // namespace ea
