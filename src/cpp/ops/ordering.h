// Elements in order along an axis, and where they are.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "autograd/var.h"

namespace ea {

struct Ordered {
  Var values;
  Tensor indices;  // int64, along the axis, on the device of the values
};

// Takes the first k elements along the axis in ascending or descending order;
// without k all. Equal elements keep their order, NaN counts as the largest
// value. The gradient goes to the elements taken. Synchronises with the device.
Ordered ordered(const char* op, const Var& x, int axis, bool descending,
                std::optional<std::int64_t> k = {});

}  // namespace ea
