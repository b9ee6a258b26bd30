// Elements in order along an axis, and where they are.
#pragma once

#include <cstdint>
#include <optional>

#include "autograd/var.h"

namespace ea {

struct Ordered {
  Var values;
  Tensor indices;  // int64, along the axis, on the device of the values
};

// Finds the first k elements along the axis in ascending or descending order,
// without k all: int64 indices along the axis, on the CPU. Equal elements keep
// their order, NaN counts as the largest value. Synchronises with the device.
Tensor order_of(const char* op, const Tensor& x, int axis, bool descending,
                std::optional<std::int64_t> k = {});
// Takes the elements that order_of() finds; the gradient goes to them.
Ordered ordered(const char* op, const Var& x, int axis, bool descending,
                std::optional<std::int64_t> k = {});

}  // namespace ea
