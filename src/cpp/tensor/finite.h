// Searches for numbers that are not finite.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace ea {

// The first element of a contiguous tensor on the CPU that is NaN or infinite,
// counted in order; -1 if there is none, as always among integers.
std::int64_t first_not_finite(const Tensor& t);

}  // namespace ea
