// Differentiable shape operations.
#pragma once

#include <vector>

#include "autograd/var.h"

namespace ea {

// One size may be -1; it is computed from the others.
Var reshape(const Var& x, Shape shape);
Var transpose(const Var& x, int axis_a, int axis_b);
// Axis i of y is axis axes[i] of x; `axes` contains each axis once.
Var permute(const Var& x, const std::vector<int>& axes,
            const char* op = "permute");
// Copies the values into new memory.
Var copied(const Var& x);
// Returns x[..., begin:end, ...] along an axis.
Var slice(const Var& x, int axis, std::int64_t begin, std::int64_t end);
// Returns x[..., i, ...] without the axis, 0 <= i < x.dim(axis).
Var entry(const Var& x, int axis, std::int64_t i);
// Returns consecutive ranges of an axis; `sizes` add up to its size. Backward
// copies x once per halving of the list, not once per range.
std::vector<Var> split(const Var& x, int axis,
                       const std::vector<std::int64_t>& sizes);
// Returns x[..., i, ...] for every i, without the axis.
std::vector<Var> unbind(const Var& x, int axis);
// Concatenates tensors whose shapes are equal except along `axis`.
Var concat(const std::vector<Var>& xs, int axis);

}  // namespace ea
